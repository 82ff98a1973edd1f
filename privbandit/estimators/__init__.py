"""Estimators, batched over replications: no privacy, no randomness."""
