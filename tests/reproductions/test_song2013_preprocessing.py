"""The 2013 paper's preprocessing, and the variant that costs no privacy."""

import numpy as np
import pytest

from noisette.errors import InvalidData, InvalidParameter
from reproductions.song2013.preprocessing import (
    PaperPreprocessing,
    gaussian_projection,
    paper_preprocessing,
    private_preprocessing,
)


def test_the_projection_has_the_stated_law_and_no_data() -> None:
    G = gaussian_projection(2000, 15, seed=3)
    np.testing.assert_array_equal(G, gaussian_projection(2000, 15, seed=3))
    assert not np.array_equal(G, gaussian_projection(2000, 15, seed=4))
    # 30,000 entries N(0, 1/15): chi-square within five standard deviations, mean likewise.
    scaled = G.ravel() * np.sqrt(15.0)
    assert abs((scaled**2).sum() - scaled.size) < 5.0 * np.sqrt(2.0 * scaled.size)
    assert abs(scaled.sum()) < 5.0 * np.sqrt(scaled.size)


def test_paper_steps_against_a_plain_computation(rng: np.random.Generator) -> None:
    X = rng.normal(3.0, [1.0, 5.0, 0.1, 2.0], (5000, 4))
    X[:, 2] = 7.0  # constant
    Z = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), np.inf)
    Z /= np.maximum(1.0, np.linalg.norm(Z, axis=1))[:, None]
    wanted = Z @ gaussian_projection(4, 3, seed=1)
    longer = np.linalg.norm(wanted, axis=1) > 1.0
    assert 0.1 < longer.mean() < 0.9, "the projection does not keep the norm bound"
    wanted /= np.maximum(1.0, np.linalg.norm(wanted, axis=1))[:, None]
    got = paper_preprocessing(X, 3, seed=1)
    np.testing.assert_allclose(got, wanted, atol=1e-12)
    assert np.linalg.norm(got, axis=1).max() <= 1.0
    fitted = PaperPreprocessing.fit(X, 3, seed=1)
    np.testing.assert_array_equal(fitted(X[:7]), got[:7])


def test_paper_is_not_row_local_and_the_private_variant_is(rng: np.random.Generator) -> None:
    X = rng.random((6000, 20))
    neighbour = X.copy()
    neighbour[0] = 1000.0
    changed = paper_preprocessing(X, 9, 0)[1:] != paper_preprocessing(neighbour, 9, 0)[1:]
    assert changed.any(), "one record must change other people's features, or the warning is wrong"
    private = [private_preprocessing(data, 9, 0, low=0.0, high=1.0) for data in (X, neighbour)]
    np.testing.assert_array_equal(private[0][1:], private[1][1:])
    for size in (1, 2, 4097):
        alone = private_preprocessing(X[-size:], 9, 0, low=0.0, high=1.0)
        np.testing.assert_array_equal(alone, private[0][-size:])
    assert np.linalg.norm(private[1], axis=1).max() <= 1.0


def test_private_limits_and_norm_bound() -> None:
    X = np.array([[0.0, 10.0], [5.0, 20.0], [99.0, -99.0]])
    G = gaussian_projection(2, 2, seed=5) / 4.0
    got = private_preprocessing(X, 2, 5, low=[0, 10], high=[10, 20], norm_bound=4.0)
    np.testing.assert_allclose(got, np.array([[-1, -1], [0, 1], [1, -1]]) @ G, atol=1e-15)


def test_bad_input() -> None:
    X = np.zeros((3, 2))
    for call in (paper_preprocessing, private_preprocessing):
        with pytest.raises(InvalidData, match="X must be a matrix"):
            call(np.zeros(3), 2, 0)
        with pytest.raises(InvalidParameter, match="dimension must be a whole number"):
            call(X, 0, 0)
        with pytest.raises(InvalidParameter, match="random_state must be a whole number"):
            call(X, 2, -1)
        with pytest.raises(InvalidData, match="finite"):
            call(np.full((3, 2), np.nan), 2, 0)
    with pytest.raises(InvalidParameter, match="belong together"):
        private_preprocessing(X, 2, 0, low=0.0)
    with pytest.raises(InvalidParameter, match="low must be below high"):
        private_preprocessing(X, 2, 0, low=0.0, high=[1.0, 0.0])
    with pytest.raises(InvalidParameter, match="high must be a number or 2 numbers"):
        private_preprocessing(X, 2, 0, low=0.0, high=[1.0, 2.0, 3.0])
    with pytest.raises(InvalidParameter, match="norm_bound"):
        private_preprocessing(X, 2, 0, norm_bound=0.0)
    with pytest.raises(InvalidData, match="2 columns"):
        PaperPreprocessing.fit(X, 2, 0)(np.zeros((3, 3)))
