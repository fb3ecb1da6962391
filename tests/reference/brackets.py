"""Golden epsilons of Poisson steps, and when a bracket holds one."""

from noisette.core.accounting.numerical import GaussianPair, PoissonSampled, two_orders

POISSON = [
    (0.01, 1.0, 1000, 1e-5, 1.8282367),
    (0.05, 2.0, 2000, 1e-6, 6.1065516),
    (0.001, 0.8, 100_000, 1e-6, 2.9144783),
    (0.3, 5.0, 100_000, 1e-8, 288.461244),
    (0.004, 0.8, 15_000, 1e-5, 4.3794744),
]


def poisson(rate, z, count):
    return two_orders((PoissonSampled(GaussianPair(1 / z), rate), count))


def holds(bracket, golden, digits=1e-7):
    return bracket.lower <= golden * (1 + digits) and golden * (1 - digits) <= bracket.upper
