"""Prefix-sum mechanisms as dense matrices, written from their definitions: rows C (released with noise) and B with B C = A."""

from fractions import Fraction
from math import comb

import numpy as np
from scipy.linalg import toeplitz


def prefix_matrix(T):
    return np.tril(np.ones((T, T)))


def dyadic(T):
    """All complete dyadic intervals [start, start + length) inside [0, T)."""
    return [(a, 1 << h) for h in range(T.bit_length()) for a in range(0, T - (1 << h) + 1, 1 << h)]


def indicator(T, start, length):
    row = np.zeros(T)
    row[start : start + length] = 1
    return row


def tree(T):
    """(B, C) of the binary tree: prefix t is the sum of the intervals of its binary expansion."""
    nodes = dyadic(T)
    where = {node: i for i, node in enumerate(nodes)}
    C = np.array([indicator(T, *node) for node in nodes])
    B = np.zeros((T, len(nodes)))
    for t in range(1, T + 1):
        start = 0
        for h in reversed(range(t.bit_length())):
            if t >> h & 1:
                B[t - 1, where[start, 1 << h]] = 1
                start += 1 << h
    return B, C


def honaker(T):
    """(B, C): each interval of the expansion is replaced by the least-squares estimate from the nodes inside it."""
    nodes = dyadic(T)
    B, C = tree(T)
    estimate = np.zeros((len(nodes), len(nodes)))
    for i, (a, n) in enumerate(nodes):
        inside = [j for j, (b, m) in enumerate(nodes) if a <= b and b + m <= a + n]
        within = C[np.ix_(inside, range(a, a + n))]
        estimate[i, inside] = np.ones(n) @ np.linalg.pinv(within)
    return B @ estimate, C


def square_root(T):
    """L with L L = A: exact binomials binom(2k, k) / 4^k, rounded once."""
    c = [float(Fraction(comb(2 * k, k), 4**k)) for k in range(T)]
    L = toeplitz(c, np.zeros(T))
    return L, L


def local(T):
    return prefix_matrix(T), np.eye(T)


DENSE = {"tree": tree, "honaker": honaker, "square-root-fft": square_root, "local": local}
