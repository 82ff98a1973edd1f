"""The shuffle model: users randomise a little, a shuffler forgets who sent what, and the server sees counts."""

from privbandit.mechanisms.shuffle.bits import BitSum
from privbandit.mechanisms.shuffle.certificate import BinomialNoise
from privbandit.mechanisms.shuffle.gradient_descent import ShuffleGradientDescent
from privbandit.mechanisms.shuffle.sums import ScalarSum, VectorSum, matrix_sum

__all__ = ["BinomialNoise", "BitSum", "ScalarSum", "ShuffleGradientDescent", "VectorSum", "matrix_sum"]
