"""What a shuffled vector sum needs for a given guarantee, exactly calibrated and as published."""

from __future__ import annotations

from typing import Any

from privbandit.mechanisms.shuffle.sums import VectorSum


def calibrate_vector(users: int, dimension: int, epsilon: float, delta: float) -> dict[str, Any]:
    """Noise of one coordinate of the sum of `users` vectors with |x| <= 1, and what each user sends.

    `sigma`: least noise that the certificate proves (epsilon, delta)-shuffle DP; `std`: with rounding, at its largest;
    `published_sigma`: the constants of Cheu et al. (2022), None outside their range (epsilon <= 15, delta < 1/2).
    """
    exact = VectorSum.ball(users, dimension, epsilon, delta)
    published = VectorSum.published(users, dimension, epsilon, delta).sigma if epsilon <= 15 and delta < 0.5 else None
    return {
        "mechanism": "shuffle-vector",
        "users": users,
        "dimension": dimension,
        "epsilon": epsilon,
        "delta": delta,
        "sigma": exact.sigma,
        "std": exact.std,
        "published_sigma": published,
        "mu": exact.event.mu,
        "noise_bits": exact.bits,
        "messages_per_user": exact.messages_per_user,
        "bits_per_user": exact.bits_per_user,
        "guarantee": str(exact.ledger.guarantee(delta)),
    }
