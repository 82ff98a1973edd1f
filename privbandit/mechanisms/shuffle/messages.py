"""What really travels: tagged bits, and the shuffler that forgets who sent which."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


class Messages(NamedTuple):
    """One row per user before the shuffle, one row in all after it: the coordinate each bit belongs to, and the bit."""

    tag: Integers
    bit: Integers


def write(ones: Integers, length: Integers) -> Messages:
    """The multisets of bits of n users: `ones` (n, D) ones among `length` (D,) bits for each coordinate, (n, sum of lengths)."""
    position = np.concatenate([np.arange(m) for m in length])
    tag = np.repeat(np.arange(len(length)), length)
    bit = (position < ones[:, tag]).astype(np.int64)
    return Messages(np.broadcast_to(tag, bit.shape), bit)


def shuffle(messages: Messages, rng: np.random.Generator) -> Messages:
    """All messages of all users in one uniformly random order."""
    order = rng.permutation(messages.bit.size)
    return Messages(messages.tag.ravel()[order], messages.bit.ravel()[order])


def count(messages: Messages, size: int) -> Integers:
    """Ones per coordinate, (size,): all that an analyser can learn from a uniformly shuffled multiset whose length is public."""
    return np.bincount(messages.tag.ravel(), weights=messages.bit.ravel(), minlength=size).astype(np.int64)
