"""NaN in X: refused by default in a sentence that names the way out; or read as 0, row by row."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

from noisette.core.ledger import Ledger
from noisette.errors import InvalidData, InvalidParameter
from noisette.models import LinearSVC, LogisticRegression, SGDClassifier

KINDS = [LogisticRegression, LinearSVC, SGDClassifier]
RNG = np.random.default_rng(0)
FULL, Y = RNG.normal(size=(200, 4)), np.arange(200) % 2
HOLES = FULL.copy()
HOLES[RNG.uniform(size=FULL.shape) < 0.2] = np.nan
ZEROS = np.where(np.isnan(HOLES), 0.0, HOLES)


@pytest.mark.parametrize("kind", KINDS)
def test_the_refusal_names_the_way_out_and_charges_nothing(kind: Any) -> None:
    ledger = Ledger(5.0)
    model = kind(classes=[0, 1], ledger=ledger, norm_bound=1.0)
    with pytest.raises(InvalidData, match=r"X contains NaN or infinity; missing='zero' reads NaN"):
        model.fit(HOLES, Y)
    endless = np.where(np.isnan(HOLES), np.inf, HOLES)
    with pytest.raises(InvalidData, match=r"X contains NaN or infinity; .* not infinity"):
        model.set_params(missing="zero").fit(endless, Y)
    with pytest.raises(InvalidData, match=r"y contains NaN or infinity\.$"):
        model.fit(FULL, np.where(Y, np.nan, 0.0))
    with pytest.raises(InvalidParameter, match="missing must be one of 'refuse', 'zero'"):
        model.set_params(missing="mean").fit(FULL, Y)
    assert ledger.charges == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "given",
    [lambda X: X, lambda X: X.astype(np.float32), sparse.csr_array, pd.DataFrame],
    ids=["array", "float32", "sparse", "frame"],
)
def test_nan_is_zero(kind: Any, given: Any) -> None:
    model = kind(classes=[0, 1], missing="zero", random_state=1, norm_bound=1.0)
    rows = given(HOLES)
    filled = clone(model).fit(rows, Y)
    plain = kind(classes=[0, 1], random_state=1, norm_bound=1.0).fit(given(ZEROS), Y)
    assert np.array_equal(filled.coef_, plain.coef_)
    scores = plain.decision_function(given(ZEROS))
    assert np.allclose(filled.decision_function(rows), scores, rtol=1e-12, atol=0.0)
    assert "ROW-LOCAL" in filled.privacy_.proofs
    assert "(NaN) of X were read as 0" in filled.privacy_.statement()
    assert "ROW-LOCAL" not in plain.privacy_.proofs
    kept = rows.toarray() if sparse.issparse(rows) else np.asarray(rows)
    assert np.isnan(kept).sum() == np.isnan(HOLES).sum()  # the caller's rows are left alone


def test_streams_read_nan_as_zero_in_every_chunk() -> None:
    def chunks(X: Any) -> Any:
        return iter([(X[:100], Y[:100]), (X[100:], Y[100:])])

    model = SGDClassifier(
        classes=[0, 1], missing="zero", random_state=1, batch_size=50, norm_bound=1.0
    )
    one, two = clone(model).fit(chunks(HOLES)), clone(model).fit(chunks(ZEROS))
    assert np.array_equal(one.coef_, two.coef_)
    for part in (slice(0, 100), slice(100, 200)):
        model.partial_fit(HOLES[part], Y[part])
    assert np.array_equal(model.coef_, one.coef_)
