"""Where contexts and rewards come from."""
