"""The rounds played so far, growing by one row at a time and safe to branch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class _Store:
    """Arrays with room to grow. Rows before `filled` are never written again, so every History that ends there stays valid."""

    def __init__(self, R: int, capacity: int, d: int) -> None:
        self.x, self.r, self.filled = np.zeros((R, capacity, d)), np.zeros((R, capacity)), 0


class History(NamedTuple):
    """Features x (R, n, d) and rewards r (R, n). Appending costs O(R d), amortised, and leaves the old value intact."""

    store: _Store
    n: int

    @classmethod
    def empty(cls, R: int, d: int) -> History:
        return cls(_Store(R, 16, d), 0)

    @property
    def x(self) -> Array:
        return self.store.x[:, : self.n]

    @property
    def r(self) -> Array:
        return self.store.r[:, : self.n]

    def append(self, x: Array, r: Array) -> History:
        store = self.store
        if store.filled != self.n or self.n == store.x.shape[1]:  # another branch wrote on, or the store is full
            store = _Store(len(x), max(16, 2 * self.n), x.shape[1])
            store.x[:, : self.n], store.r[:, : self.n] = self.x, self.r
        store.x[:, self.n], store.r[:, self.n] = x, r
        store.filled = self.n + 1
        return History(store, self.n + 1)
