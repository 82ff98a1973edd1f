"""The kernel of a feature map, with which the kernel form of a posterior must agree with its feature form."""

import numpy as np

from privbandit.features.kernels import Kernel


class FeatureKernel(Kernel):
    """k(x, y) = <phi(x), phi(y)>."""

    def __init__(self, phi):
        self.phi = phi

    def __call__(self, x, y):
        return self.phi(x) @ np.swapaxes(self.phi(y), -1, -2)

    def diagonal(self, x):
        return np.sum(self.phi(x) ** 2, axis=-1)
