"""Exact laws on finite sets, and the smallest delta between two of them."""

from __future__ import annotations

import math

import numpy as np

from privbandit.mechanisms.shuffle.hockey_stick import divergence


def convolve(*laws):
    total = np.ones(1)
    for law in laws:
        total = np.convolve(total, law)
    return total


def both_ways(P, Q, epsilon):
    return max(divergence(P, Q, epsilon), divergence(Q, P, epsilon))


def hockey_stick(P, Q, epsilon):
    """sum of (P - e^epsilon Q)_+ over the last axis: the smallest delta at epsilon."""
    return np.maximum(P - math.exp(epsilon) * Q, 0.0).sum(-1)
