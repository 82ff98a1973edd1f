"""What the GLM policies share: defaults of public parameters and the scale of reward noise."""

from __future__ import annotations

from privbandit.links import Link
from privbandit.policies.base import Policy


def sub_gaussian(link: Link, S: float) -> float:
    """A sub-Gaussian constant of the reward: half its range (Hoeffding). Infinite for unbounded rewards."""
    low, high = link.reward_range(S)
    return (high - low) / 2


def set_defaults(policy: Policy, **defaults: float) -> None:
    """Fill the fields of a frozen policy that were left at None."""
    for field, value in defaults.items():
        if getattr(policy, field) is None:
            object.__setattr__(policy, field, value)
