"""The shuffle model: published constants of the sums, amplification, and the parameters of the batched GLM algorithm."""

import sympy as sp

from privbandit.formula import OWN, Formula, Source

epsilon, delta, epsilon_0, Delta, sigma, eta, step = sp.symbols("epsilon delta epsilon_0 Delta sigma eta step", positive=True)
n, b, g, d, D, T, K = sp.symbols("n b g d D T K", positive=True)
p, q, f = sp.symbols("p q f", positive=True)
S, L, M, R, kappa, gamma, alpha, zeta, nu = sp.symbols("S L M R kappa gamma alpha zeta nu", positive=True)
lambda_min, lambda_max = sp.symbols("lambda_min lambda_max", positive=True)

CHEU19 = "cheu2019"
CHEU22 = "cheu2022"
SARMASARKAR = Source("sarmasarkar2026", "Section 5", "v2")

# Sums -------------------------------------------------------------------------------------------------------------------------------

BIT_SUM_FLIPS = Formula(
    "shuffle-bit-published", r"nq", 64 * sp.log(4 / delta) / epsilon**2, Source(CHEU19, "bit sum (quoted at second hand; sufficient, not necessary)")
)

BIT_SUM_VARIANCE = Formula(
    "shuffle-bit-variance", r"\operatorname{Var}", n * (q / 2) * (1 - q / 2) / (1 - q) ** 2, Source(CHEU19, "bit sum, computed")
)

SCALAR_BITS = Formula(
    "shuffle-scalar-published",
    r"nbp",
    90 * g**2 * sp.log(2 / delta) / epsilon**2,
    Source(CHEU22, "the scalar sum (epsilon <= 15, delta < 1/2; false for g = 1 and epsilon >= 10, so g >= 2 here)"),
)

VECTOR_BITS = Formula(
    "shuffle-vector-published",
    r"nb",
    24 * 10**4 * g**2 * sp.log(4 * (D**2 + 1) / delta) ** 2 / epsilon**2,
    Source(CHEU22, "the vector sum with p = 1/4 (epsilon <= 15, delta < 1/2)"),
)

SUM_VARIANCE = Formula(
    "shuffle-sum-variance",
    r"\operatorname{Var}",
    step**2 * (n * b * p * (1 - p) + n * f * (1 - f)),
    Source(CHEU22, "computed; f is the common fractional part of x / step"),
)

SUM_PROXY = Formula(
    "shuffle-sum-proxy", r"\tilde\sigma^2", step**2 * (n * b + n) / 4, Source(CHEU22, "Hoeffding's lemma, computed")
)

# Amplification ----------------------------------------------------------------------------------------------------------------------

_clones = 8 * sp.sqrt(sp.exp(epsilon_0) * sp.log(4 / delta) / n) + 8 * sp.exp(epsilon_0) / n

AMPLIFICATION = Formula(
    "shuffle-amplification",
    r"\varepsilon",
    sp.log(1 + (sp.exp(epsilon_0) - 1) / (sp.exp(epsilon_0) + 1) * _clones),
    Source("feldman2021", "Theorem 3.1 (for epsilon_0 <= log(n / (16 log(2/delta))))"),
)

AMPLIFICATION_CODE = Formula(
    "shuffle-amplification-code",
    r"\varepsilon",
    sp.log(1 + (1 - sp.exp(-epsilon_0)) / (1 + sp.exp(-epsilon_0) / (1 + _clones)) * _clones),
    Source("feldman2021", "the closed form of the authors' code: a little larger than Theorem 3.1"),
)

# The optimiser P_GD -----------------------------------------------------------------------------------------------------------------

PGD_ROUNDS = Formula(
    "shuffle-pgd-rounds", r"T_{gd}", epsilon**2 * n**2 / (d * sp.log(n * d / delta) ** 3), Source("sarmasarkar2026", "Section 5", "v2")
)

PGD_STEP_EPSILON = Formula(
    "shuffle-pgd-epsilon",
    r"\varepsilon_0",
    epsilon / (2 * sp.sqrt(2 * T * sp.log(2 / delta))),
    Source("dwork2014", "Theorem 3.20 (advanced composition); basic for few rounds; epsilon <= 8 log(3/2) log(2/delta)"),
)

PGD_STEP = Formula("shuffle-pgd-step", r"\eta", S / sp.sqrt(T * (n**2 * L**2 + d * sigma**2)), OWN)

PGD_MEAN_EXCESS = Formula(
    "shuffle-pgd-mean",
    r"\mathbb{E}\,\nu",
    S**2 / (2 * eta * T) + eta * (n**2 * L**2 + d * sigma**2) / 2,
    OWN,
)

PGD_EXCESS = Formula(
    "shuffle-pgd-excess",
    r"\nu",
    S**2 / (2 * eta * T)
    + eta * (n**2 * L**2 + sigma**2 * (sp.sqrt(d) + sp.sqrt(2 * sp.log(2 * T / zeta))) ** 2)
    + 2 * S * sigma * sp.sqrt(2 * sp.log(2 / zeta) / T),
    OWN,
)

# Algorithm 1 ------------------------------------------------------------------------------------------------------------------------

FIRST_BATCH = Formula(
    "shuffle-first-batch",
    r"B_1",
    (sp.sqrt(kappa) * sp.exp(3 * M * S) * d**2 * gamma**2 * alpha / S) ** sp.Rational(2, 3),
    Source("sarmasarkar2026", "Section 5, restored; M is the self-concordance of the link", "v2"),
)

BATCH = Formula("shuffle-batch", r"B_k", alpha ** (2 - 2 ** (2 - K)), Source("sarmasarkar2026", "Section 5 (k >= 2), solved", "v2"))

BATCH_COUNT = Formula(
    "shuffle-batches", r"\#", sp.log(2 + sp.log(T, 2), 2), Source("sarmasarkar2026", "alpha = 2 sqrt(T); round up", "v2")
)

NORM_BOUND = Formula(
    "shuffle-norm",
    r"\lVert N \rVert",
    sigma * (4 * sp.sqrt(d) + 2 * sp.sqrt(sp.log(2 * d * M * T / delta))),
    Source("sarmasarkar2026", "Equation 23; M batches", "v2"),
)

PUBLISHED_NU = Formula(
    "shuffle-nu", r"\nu", 2 * R * S * sp.sqrt(d * sp.log(T * d / delta) ** 3) / epsilon, Source("sarmasarkar2026", "Lemma U.3", "v2")
)

GAMMA = Formula(
    "shuffle-gamma",
    r"\gamma",
    24 * R * S * (sp.sqrt(sp.log(T) + d) + R * (sp.log(T) + d) / sp.sqrt(lambda_min))
    + 2 * S * sp.sqrt(lambda_max)
    + 4 * sp.sqrt(R * S * nu),
    Source("sarmasarkar2026", "Lemma F.4 with roots restored", "v2"),
)

# Regret of Algorithm 1, without constants and logarithms -----------------------------------------------------------------------------

kappa_star, kappa_hat = sp.symbols("kappa_star kappa_hat", positive=True)
_leading = d * sp.sqrt(T / kappa_hat)
"""A batch costs d gamma alpha / sqrt(kappa_hat), with gamma of the order of sqrt(d) + sqrt(lambda) + sqrt(nu)."""
MATRIX_SCALE, OPTIMISER_SCALE = sp.sqrt(d) / (kappa_star * epsilon), sp.sqrt(d) / epsilon  # orders of lambda's private part and of nu

REGRET_STATISTICAL = Formula("shuffle-regret-statistical", r"R_T", _leading * sp.sqrt(d), Source("sarmasarkar2026", "Theorem 5.1", "v2"))

REGRET_MATRIX = Formula(
    "shuffle-regret-matrix",
    r"R_T",
    sp.simplify(_leading * sp.sqrt(MATRIX_SCALE)),
    Source("sarmasarkar2026", "Theorem 5.1, with kappa-hat", "v2"),
)

REGRET_OPTIMISER = Formula("shuffle-regret-optimiser", r"R_T", sp.simplify(_leading * sp.sqrt(OPTIMISER_SCALE)), OWN)

REGRET_OPTIMISER_PRINTED = Formula(
    "shuffle-regret-optimiser-printed",
    r"R_T",
    sp.simplify(_leading * OPTIMISER_SCALE ** sp.Rational(1, 4)),
    Source("sarmasarkar2026", "Theorem E.3: the fourth root of nu, where the proof gives the square root", "v2"),
)

REGRET_WARM_UP = Formula(
    "shuffle-regret-warm-up",
    r"R_T",
    d**2 * T ** sp.Rational(1, 3) * sp.exp(3 * S) * kappa ** sp.Rational(1, 3) / epsilon ** sp.Rational(2, 3),
    Source("sarmasarkar2026", "Theorem 5.1", "v2"),
)
