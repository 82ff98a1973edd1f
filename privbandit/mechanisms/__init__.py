"""How a statistic leaves: noisy prefix sums and other private releases."""

from privbandit.mechanisms.base import PrefixSums
from privbandit.mechanisms.local import PerUser
from privbandit.mechanisms.square_root import SquareRoot, SquareRootFFT
from privbandit.mechanisms.tree import HonakerTree, TreeMechanism

PREFIX_SUMS: dict[str, type[PrefixSums]] = {
    "tree": TreeMechanism,
    "honaker": HonakerTree,
    "square-root": SquareRoot,
    "square-root-fft": SquareRootFFT,
    "local": PerUser,
}

__all__ = ["PREFIX_SUMS", "HonakerTree", "PerUser", "PrefixSums", "SquareRoot", "SquareRootFFT", "TreeMechanism"]
