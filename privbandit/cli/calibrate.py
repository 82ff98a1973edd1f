"""`privbandit calibrate`: the noise a guarantee needs. Each mechanism has its own options, so that none is taken and ignored."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from privbandit.cli.base import Answer, Parser, fields, horizon, leaf
from privbandit.ledger import NEIGHBOURS

SENSITIVITY = (
    "largest L2 distance by which the change of one user moves the sum (default 1): for vectors of norm at most 1 it is 2 if a user is "
    "replaced, 1 if added or removed"
)
SUMS = {
    "tree": "binary tree: running sums of a vector, one release after each user",
    "honaker": "the same tree, read with less noise",
    "square-root": "square-root factorisation, streaming: the usual choice",
    "square-root-fft": "the same factorisation, exact, all noise drawn in advance",
    "local": "local model: every user's own report is noised, no curator is trusted",
}


def add(commands: Any) -> None:
    about = "The least noise for a guarantee. Options follow the mechanism: 'privbandit calibrate tree --help'."
    top = commands.add_parser("calibrate", help="the noise a guarantee needs", description=about)
    kinds = top.add_subparsers(dest="mechanism", required=True, metavar="MECHANISM")
    gaussian = _mechanism(kinds, "gaussian", _gaussian, "one vector or number, released once or a given number of times")
    gaussian.add_argument("--releases", type=int, default=1, help="how many releases one user's data enters, adaptively chosen (default 1)")
    _sensitivity(gaussian)
    for name, help in SUMS.items():
        sub = _mechanism(kinds, name, _sums, help, NEIGHBOURS if name != "local" else ("replace",))
        sub.add_argument("--horizon", type=int, default=1, help="number of users, one release after each (default 1)")
        _sensitivity(sub)
    _gp_options(_mechanism(kinds, "gp", _gp, "noisy Gaussian-process bandit: noise and width of its band", ("replace",)))
    shuffled = _mechanism(kinds, "shuffle-vector", _shuffled, "sum of vectors through a trusted shuffler", ("replace",))
    shuffled.add_argument("--users", type=int, default=1000, help="users whose messages are shuffled together (default 1000)")
    shuffled.add_argument("--dimension", type=int, default=1, help="coordinates of each user's vector, |x| <= 1 (default 1)")


def _mechanism(
    kinds: Any, name: str, perform: Callable[[argparse.Namespace], Answer], help: str, neighbours: Sequence[str] = NEIGHBOURS
) -> Parser:
    sub = leaf(kinds, name, perform, help)
    sub.add_argument("--epsilon", type=float, required=True, help="finite, > 0")
    sub.add_argument("--delta", type=float, required=True, help="strictly between 0 and 1")
    only = "" if len(neighbours) > 1 else ", the only one proved here"
    sub.add_argument("--neighbours", choices=neighbours, default="replace", help=f"neighbour relation (default replace{only})")
    return sub


def _sensitivity(sub: Parser) -> None:
    sub.add_argument("--sensitivity", type=float, default=1.0, help=SENSITIVITY)


def _gp_options(sub: Parser) -> None:
    sub.add_argument("--horizon", type=int, default=1, help="number of users, one release after each (default 1)")
    sub.add_argument("--kernel", choices=("se", "matern"), default="se", help="squared exponential (default) or Matern")
    sub.add_argument("--lengthscale", type=float, default=0.2, help="of the kernel (default 0.2)")
    sub.add_argument("--nu", type=float, help="smoothness of the Matern kernel, 0.5, 1.5, ... (default 2.5); matern only")
    sub.add_argument("--dimension", type=int, default=1, help="points lie in [0, 1]^d (default 1)")
    sub.add_argument("--norm-bound", type=float, default=1.0, help="B, bound on the function's norm in the kernel's space (default 1)")
    sub.add_argument("--reward-bound", type=float, default=1.0, help="Y, rewards are clipped to [-Y, Y] (default 1)")
    sub.add_argument("--zeta", type=float, default=0.05, help="probability that a bound on the noise fails at some round (default 0.05)")


def _gaussian(options: argparse.Namespace) -> Answer:
    from privbandit.mechanisms.report import calibrate_gaussian

    return _answer(calibrate_gaussian(options.epsilon, options.delta, options.releases, options.sensitivity, options.neighbours))


def _sums(options: argparse.Namespace) -> Answer:
    from privbandit.mechanisms.report import calibrate_sums

    asked = (options.epsilon, options.delta, horizon(options.horizon), options.sensitivity, options.neighbours)
    return _answer(calibrate_sums(options.mechanism, *asked))


def _gp(options: argparse.Namespace) -> Answer:
    from privbandit.gp.report import calibrate_gp

    matern = options.kernel == "matern"
    if options.nu is not None and not matern:
        raise ValueError(f"nu must be left out with --kernel {options.kernel}, where it has no effect, got {options.nu}")
    nu = 2.5 if options.nu is None else options.nu
    numbers = {"horizon": horizon(options.horizon), "epsilon": options.epsilon, "delta": options.delta}
    design = {"d": options.dimension, "B": options.norm_bound, "Y": options.reward_bound, "zeta": options.zeta}
    found = calibrate_gp(options.kernel, options.lengthscale, **numbers, **design, nu=nu)
    asked = {"mechanism": "gp", **numbers, "kernel": options.kernel, "lengthscale": options.lengthscale}
    names = {"dimension": "d", "norm_bound": "B", "reward_bound": "Y", "zeta": "zeta"}
    shown = {name: design[symbol] for name, symbol in names.items()} | {"neighbours": options.neighbours}
    return _answer(asked | ({"nu": nu} if matern else {}) | shown | {"sums": found.pop("mechanism")} | found)


def _shuffled(options: argparse.Namespace) -> Answer:
    from privbandit.mechanisms.shuffle.report import calibrate_vector

    return _answer(calibrate_vector(options.users, options.dimension, options.epsilon, options.delta))


def _answer(result: dict[str, Any]) -> Answer:
    return Answer(result, fields(result))
