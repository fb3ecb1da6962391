import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.clipping import clip_rows, row_norms


@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 6), st.integers(1, 40)),
    scale=st.floats(1e-100, 1e100),
    bound=st.floats(1e-3, 1e3),
)
def test_no_row_is_longer_than_the_bound_in_exact_arithmetic(seed, shape, scale, bound):
    from fractions import Fraction

    rows = np.random.default_rng(seed).standard_normal(shape) * scale
    for row in clip_rows(rows, bound):
        assert sum(Fraction(x) ** 2 for x in row.tolist()) <= Fraction(bound) ** 2


def test_short_rows_are_left_alone_and_long_ones_keep_their_direction():
    rows = np.array([[0.3, 0.4], [3.0, 4.0], [0.0, 0.0]])
    clipped = clip_rows(rows, 1.0)
    assert np.array_equal(clipped[[0, 2]], rows[[0, 2]])
    assert clipped[1] == pytest.approx([0.6, 0.8], rel=1e-14)
    assert rows[1, 0] == 3.0  # the input is not changed


def test_sparse_rows_stay_sparse_and_agree_with_dense():
    dense = np.random.default_rng(0).standard_normal((20, 7))
    dense[dense < 0.5] = 0.0
    clipped = clip_rows(sparse.csr_matrix(dense), 0.8)
    assert sparse.issparse(clipped)
    assert clipped.toarray() == pytest.approx(clip_rows(dense, 0.8))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float_types_are_kept(dtype):
    clipped = clip_rows(np.full((2, 3), 5, dtype=dtype), 1.0)
    assert clipped.dtype == dtype
    assert (row_norms(clipped.astype(np.float64)) <= 1.0).all()


def test_integers_become_floats():
    assert clip_rows(np.array([[3, 4]]), 1.0)[0] == pytest.approx([0.6, 0.8])


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_what_has_no_norm_is_refused_without_a_value(bad):
    with pytest.raises(InvalidData) as caught:
        clip_rows(np.array([[bad, 7777.0]]), 1.0)
    assert "7777" not in str(caught.value)


def test_bad_bounds_and_shapes_are_refused():
    with pytest.raises(InvalidParameter, match="bound"):
        clip_rows(np.ones((2, 2)), 0.0)
    with pytest.raises(InvalidData, match="matrix"):
        clip_rows(np.ones(3), 1.0)


def test_a_canary_moves_the_sum_by_exactly_the_bound():
    rows = np.zeros((5, 3))
    canary = rows.copy()
    canary[2] = [1e6, 0, 0]
    before, after = (clip_rows(x, 0.5).sum(axis=0) for x in (rows, canary))
    assert np.linalg.norm(after - before) == pytest.approx(0.5)


def test_norms_of_sparse_rows_do_not_underflow_in_single_precision() -> None:
    rows = np.full((1, 5), 1e-23, dtype=np.float32)
    np.testing.assert_allclose(row_norms(sparse.csr_matrix(rows)), row_norms(rows), rtol=1e-12)
    clipped = clip_rows(sparse.csr_matrix(rows), 1e-25)
    assert np.linalg.norm(clipped.toarray().astype(float)) <= 1e-25


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_wide_rows_keep_their_direction_and_the_bound(dtype) -> None:
    """In 2^25 columns the rounding allowance was above 1 for float32: rows changed their sign."""
    entries = (np.ones(3, dtype=dtype), np.array([0, 5, 7]), np.array([0, 3]))
    clipped = clip_rows(sparse.csr_matrix(entries, shape=(1, 2**25)), 1.0).data
    assert np.all(clipped > 0.57)
    assert np.linalg.norm(clipped.astype(float)) <= 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_clipped_rows_obey_the_bound_in_float64(dtype) -> None:
    rng = np.random.default_rng(0)
    for bound in (1e-30, 1e-3, 1.0, 1e7, 1e15):
        rows = (rng.standard_normal((200, 50)) * bound).astype(dtype)
        for stored in (rows, sparse.csr_matrix(rows)):
            clipped = clip_rows(stored, bound)
            dense = clipped.toarray() if sparse.issparse(clipped) else clipped
            assert np.linalg.norm(dense.astype(float), axis=1).max() <= bound


@pytest.mark.parametrize("store", [np.array, sparse.csr_matrix])
def test_a_factor_below_the_normal_numbers_is_rounded_down(store) -> None:
    rng = np.random.default_rng(1)
    rows = (10.0 ** rng.uniform(30.0, 38.0, (500, 2))).astype(np.float32)
    clipped = clip_rows(store(rows), 1e-6)
    dense = clipped.toarray() if sparse.issparse(clipped) else clipped
    assert np.linalg.norm(dense.astype(float), axis=1).max() <= 1e-6


def test_entries_stored_in_halves_are_added_before_they_are_clipped() -> None:
    halves = sparse.csr_matrix((np.ones(4), np.zeros(4, dtype=int), np.array([0, 4])), shape=(1, 3))
    assert np.linalg.norm(clip_rows(halves, 1.0).toarray()) <= 1.0
