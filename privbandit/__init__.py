"""privbandit: differentially private bandit algorithms, each with its privacy ledger."""

__version__ = "0.1.0"
