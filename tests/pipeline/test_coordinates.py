"""Moments of columns from their shares: the same with and without their covariance written out."""

import tracemalloc

import numpy as np
import pytest

from noisette.tables.pipeline.coordinates import Block, coordinates, moment_of

NOISE = 0.01
FILLED = np.array([0.2, 0.5, 0.3, 0.0])


def blocks() -> list[Block]:
    shares = np.array([0.5, 0.2, 0.27, 0.03])
    return [
        Block(4, shares, noise=NOISE),
        Block(4, shares, least=0.1, noise=NOISE),
        Block(4, shares, whole=False, noise=NOISE),
        Block(4, shares, ordered=True, noise=NOISE),
        Block(4, shares, ordered=True, filled=FILLED, noise=NOISE),
        Block(2, np.array([0.3, 0.2, 0.4]), rows=np.array([[1.0, 0.0], [-0.5, 0.8], [-0.5, -0.8]])),
    ]


@pytest.mark.parametrize("block", blocks())
def test_the_trace_is_that_of_the_covariance(block):
    moment = moment_of(block)
    assert moment.trace() == pytest.approx(float(np.trace(moment.covariance())), rel=1e-14)


def test_the_covariance_of_levels_is_that_of_one_draw():
    block = Block(4, np.array([0.5, 0.2, 0.27, 0.03]), noise=NOISE)
    rows = np.eye(4)
    weights = block.shares
    mean = weights @ rows
    expected = (rows - mean).T @ ((rows - mean) * weights[:, None]) + NOISE**2 * np.eye(4)
    np.testing.assert_allclose(moment_of(block).covariance(), expected, rtol=0.0, atol=1e-15)


def test_a_missing_cell_has_the_hats_of_the_centre():
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    moment = moment_of(Block(4, shares, ordered=True, filled=FILLED, noise=NOISE, alike=0.0))
    rows = np.vstack([np.eye(4)[:3], FILLED + np.eye(4)[3]])
    mean = shares @ rows
    np.testing.assert_allclose(moment.mean, mean, rtol=1e-14)
    expected = (rows - mean).T @ ((rows - mean) * shares[:, None]) + NOISE**2 * np.eye(4)
    np.testing.assert_allclose(moment.covariance(), expected, rtol=0.0, atol=1e-15)


def test_thousands_of_levels_are_planned_in_little_memory():
    shares = np.random.default_rng(0).dirichlet(np.ones(5000))
    tracemalloc.start()
    try:
        made = coordinates(
            [Block(5000, shares, noise=1e-4)], floor=0.1, slack=1.3, intercept=0.5, wide=True
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert made.map.shape == (5000, 5000)
    assert peak < 10e6  # one covariance of 5,000 levels has 200 MB
