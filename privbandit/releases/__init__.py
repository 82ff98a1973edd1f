"""What may be published after a run, and comparison rows that release less or protect less."""
