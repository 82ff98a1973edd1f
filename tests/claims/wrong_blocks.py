"""Exploitation blocks with one step left out, and the leaves that blocks make after sums that no good event bounds."""

from __future__ import annotations

import math

import numpy as np

from privbandit.linalg import svec_size


class NoLengthClip:
    """Leaves as long as the whitened feature, not min(|U x|, rho)."""

    def leaf(self, epoch, z_o, x, reward):
        free = type(self).__mro__[2](self.link, self.problem, self.constants._replace(clip=math.inf))
        return free.leaf(epoch, z_o, x, reward)


class NoProjection:
    """Centred at the estimate itself, however long."""

    def renewed(self, epoch, *released):
        new = super().renewed(epoch, *released)
        return new._replace(centre=np.where((new.number > epoch.number)[:, None], epoch.theta, epoch.centre))


class Uncentred:
    """Released as if the centre of the responses did not widen their range by L S."""

    @property
    def units(self):
        p, m = self.problem, svec_size(self.problem.d)
        factor = np.ones(super().units.size)
        factor[m : m + p.d] = p.Y / (p.Y + p.L * p.S)
        return super().units * factor


class FarPrediction:
    """Linearises near the exploration block's prediction, wherever that is."""

    def linearisation_point(self, z, z_o):
        return np.clip(z, z_o - self.constants.Delta, z_o + self.constants.Delta)


class OwnPrediction:
    """Linearises at the block's own prediction, however far it is from the exploration block's."""

    def linearisation_point(self, z, z_o):
        return np.clip(z, -self.problem.S, self.problem.S)


class HalfDrift:
    """An index with half the width that noise and ridge need."""

    def upper(self, state, contexts):
        narrow = type(self).__mro__[2](self.link, self.problem, self.constants._replace(drift=self.constants.drift / 2))
        return narrow.upper(state, contexts)


def rebuilt(wrong, block):
    """The block with the wrong step in front."""
    return type(wrong.__name__, (wrong, type(block)), {})(block.link, block.problem, block.constants)


def with_block(policy, wrong):
    """The policy whose exploitation block has the wrong step."""

    def block(self):
        return rebuilt(wrong, super(made, self).block)

    made = type(wrong.__name__, (policy,), {"block": property(block)})
    return made


def with_half(policy, half, wrong):
    """`BestOfBoth` with the wrong step in the block called `half`: plain or weighted."""

    def block(self):
        right = super(made, self).block
        parts = {"plain": right.plain, "weighted": right.weighted}
        return type(right)(**parts | {half: rebuilt(wrong, parts[half])})

    made = type(f"{half}{wrong.__name__}", (policy,), {"block": property(block)})
    return made


def leaves_after_noise(p, R, rng):
    """Leaves (2, R, size), in released units, of two users of each of R blocks that read noise alone: eight sums of Gaussians, from a
    tenth to a million times as large as the units. Features of length up to 1, extreme rewards, predictions anywhere."""
    block, released = p.block, 0.0
    state = block.init(R)
    for _ in range(8):
        released = released + 10 ** rng.uniform(-1, 6, (R, 1)) * block.units * rng.standard_normal((R, block.units.size))
        state = block.read(state, released)
    return np.array([block.leaf(state, *record(p, R, rng)) / block.units for _ in range(2)])


def record(p, R, rng):
    """What the exploration block predicts (R,), features (R, d) and rewards (R,)."""
    x = rng.standard_normal((R, p.d))
    x *= rng.choice([1e-3, 0.3, 1.0], size=(R, 1)) / np.linalg.norm(x, axis=1, keepdims=True)
    reward = rng.choice([0.0, 1.0], R) if p.problem.M else p.problem.Y * rng.choice([-1.0, 1.0], R)
    return rng.uniform(-3, 3, R) * p.S, x, reward
