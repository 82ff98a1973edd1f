"""Private Gaussian-process bandits: what a user contributes, how the noise is bounded, and the public design of the budget."""
