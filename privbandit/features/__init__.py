"""Kernels, finite features and information gain."""

from privbandit.features.fourier import FourierFeatures, Rule, random_features, rule_error
from privbandit.features.kernels import Kernel, Linear, Matern, Product, SquaredExponential, make_kernel
from privbandit.features.quadrature import (
    choose_features,
    equispaced_features,
    features_for_horizon,
    gegenbauer_features,
    hermite_features,
    nodes_for,
)

__all__ = [
    "FourierFeatures",
    "Kernel",
    "Linear",
    "Matern",
    "Product",
    "Rule",
    "SquaredExponential",
    "choose_features",
    "equispaced_features",
    "features_for_horizon",
    "gegenbauer_features",
    "hermite_features",
    "make_kernel",
    "nodes_for",
    "random_features",
    "rule_error",
]
