"""A guarantee cites every theorem on which it rests: whatever proof a fit passes, it names."""

import ast
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest

import noisette
from noisette.core.guarantee import Guarantee
from noisette.core.ledger import Ledger
from noisette.models import LinearSVC, LogisticRegression, SGDClassifier
from noisette.report.proofs import MEANINGS
from noisette.tables.pipeline import (
    PrivateBounds,
    PrivateCategories,
    PrivateKnots,
    PrivateProjection,
    PrivateSelector,
    TableClassifier,
    evaluate,
)
from step_canaries import ConstantCandidate

SOURCE = Path(noisette.__file__).parent
# How the numbers of a curve are computed is docs/theory/accounting.md's matter, not the promise's.
NUMBERS = ("core/accounting/", "audit/", "report/", "core/door.py", "core/ledger.py",
           "core/permit.py", "core/search.py", "app/", "core/mechanisms/gaussian_curve.py",
           "core/mechanisms/spherical_laplace_curve.py")  # fmt: skip
CURVE_ONLY = {"PURE-RR"}
CITED = re.compile(r"[Pp]roof: ([A-Z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)+|CLIP|ADJACENCY|PARALLEL)")


@cache
def places(path: str) -> tuple[tuple[int, str], ...]:
    """Return (line of the statement, id) of every proof that a source file cites."""
    name = Path(path).relative_to(SOURCE).as_posix()
    if name.startswith(NUMBERS):
        return ()
    text = Path(path).read_text()
    tree = ast.parse(text)
    starts = sorted(
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    )
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        for theorem in CITED.findall(line):
            code = line.strip() and not line.strip().startswith("#") and number in starts
            found.append((number if code else min(n for n in starts if n > number), theorem))
    return tuple(found)


def reached(fit: Callable[[], Any]) -> tuple[set[str], Any]:
    """Run `fit` and return the ids of the proofs that it passed, and what it returned."""
    lines: set[tuple[str, int]] = set()

    def local(frame: Any, event: str, _: Any) -> Any:
        lines.add((frame.f_code.co_filename, frame.f_lineno))
        return local

    def trace(frame: Any, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        return local if name.startswith(str(SOURCE)) and places(name) else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = fit()
    finally:
        sys.settrace(before)
    files = {name for name, _ in lines}
    passed = {theorem for name in files for line, theorem in places(name) if (name, line) in lines}
    return passed - CURVE_ONLY, result


def rows(n: int = 300, d: int = 3, classes: int = 2) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)) / 2.0, rng.integers(0, classes, n)


X, y = rows()
HALF = np.where(np.arange(300) % 2, 1.0, 0.5)
GROUND = {"CLIP", "ADJACENCY", "FLOAT-GRID"}
SOLVER = {"SOLVER-DISTANCE", "SOLVER-NORM", "ROUND-GRADIENT", "ROUND-ATTAINABLE"}
OBJECTIVE = SOLVER | {"OBJECTIVE-PERTURBATION", "APPROXIMATE-MINIMISER", "COMPOSE", "FULL-BATCH"}
CASES: list[tuple[str, Callable[[], Any], set[str]]] = [
    ("objective", lambda: LogisticRegression(norm_bound=1.0).fit(X, y),
     GROUND | OBJECTIVE | {"LOSS-LOGISTIC", "OBJECTIVE-REPLACE", "TWO-CHANGES"}),
    ("softmax",
     lambda: LogisticRegression(1.0, 1e-5, adjacency="zero-out", norm_bound=1.0).fit(
         *rows(classes=3)),
     GROUND | OBJECTIVE | {"LOSS-SOFTMAX"}),
    ("softplus",
     lambda: LinearSVC(norm_bound=1.0).fit(X, y), GROUND | OBJECTIVE | {"LOSS-SOFTPLUS"}),
    ("hinge", lambda: LinearSVC(loss="hinge", norm_bound=1.0).fit(X, y),
     GROUND | SOLVER | {"LOSS-HINGE", "HINGE-GAP", "OUTPUT-SENSITIVITY", "SPHERICAL-LAPLACE"}),
    ("whitening", lambda: LogisticRegression(2.0, 1e-5, whiten=0.2, norm_bound=1.0).fit(X, y),
     GROUND | OBJECTIVE | {"WHITENING", "SECOND-MOMENT", "TWO-CHANGES", "OBJECTIVE-REPLACE"}),
    ("levels",
     lambda: LogisticRegression(mechanism="output", norm_bound=1.0).fit(X, y, sample_epsilon=HALF),
     GROUND | SOLVER | {"PER-PERSON-SCALE", "OUTPUT-SENSITIVITY"}),
    ("zero for missing",
     lambda: LogisticRegression(missing="zero", norm_bound=1.0).fit(X, y), {"ROW-LOCAL"}),
    ("pass",
     lambda: SGDClassifier(norm_bound=1.0).fit(X, y), GROUND | {"PARALLEL", "LOSS-LOGISTIC"}),
    ("pass with levels", lambda: SGDClassifier(norm_bound=1.0).fit(X, y, HALF),
     GROUND | {"PARALLEL", "PER-PERSON-SCALE"}),
    ("pass in groups", lambda: SGDClassifier(sampling="levels", norm_bound=1.0).fit(X, y, HALF),
     GROUND | {"PARALLEL", "PARALLEL-GROUPS"}),
    ("descent", lambda: SGDClassifier(1.0, 1e-5, norm_bound=1.0).fit(X, y),
     GROUND | {"LOGISTIC-SENSITIVITY-REPLACE-ONE", "FILTER-GDP", "COMPOSE", "GAUSS-EXACT"}),
    ("descent with levels",
     lambda: SGDClassifier(1.0, 1e-5, adjacency="zero-out", norm_bound=1.0).fit(X, y, HALF),
     GROUND | {"LOGISTIC-SENSITIVITY-ZERO-OUT", "FILTER-GDP", "PER-PERSON-SCALE"}),
    ("descent with levels, hinge-like",
     lambda: SGDClassifier(1.0, 1e-5, loss="huber", norm_bound=1.0).fit(X, y, HALF),
     GROUND | {"CMS11-Huber", "FILTER-GDP", "PER-PERSON-SCALE"}),
    ("cyclic with levels",
     lambda: SGDClassifier(1.0, 1e-5, sampling="cyclic", epochs=2, norm_bound=1.0).fit(X, y, HALF),
     GROUND | {"PARALLEL", "PER-PERSON-SCALE", "FILTER-GDP", "COMPOSE"}),
    ("weights",
     lambda: SGDClassifier(norm_bound=1.0).fit(X, y, sample_weight=HALF),
     GROUND | {"SAMPLE-WEIGHT"}),
    ("poisson",
     lambda: SGDClassifier(1.0, 1e-5, sampling="poisson", batch_size=50, norm_bound=1.0).fit(X, y),
     GROUND | {"POISSON-R", "COMPOSE"}),
    ("last iterate",
     lambda: SGDClassifier(1.0, 1e-5, released="last", batch_size=50, norm_bound=1.0).fit(X, y),
     GROUND | {"LAST-ITERATE-RESHUFFLED", "LAST-ITERATE-GCM", "LAST-ITERATE-LATER-IS-WORSE",
               "GRADIENT-STEP-LIPSCHITZ", "GLM-SMOOTHNESS"}),
    ("class weights", lambda: LogisticRegression(norm_bound=1.0, class_weight={0: 2.0}).fit(X, y),
     GROUND | OBJECTIVE | {"CLASS-WEIGHT"}),
    ("balanced",
     lambda: SGDClassifier(1.0, 1e-5, norm_bound=1.0, class_weight="balanced").fit(X, y),
     GROUND | {"CLASS-WEIGHT", "SAMPLE-WEIGHT", "HISTOGRAM", "LAPLACE-L1", "PLAN-BEFORE-LOOK"}),
    ("scores",
     lambda: evaluate(ConstantCandidate(1).fit(X), X, y, epsilon=1.0),
     {"SCORE-TABLE", "HISTOGRAM", "ROW-LOCAL", "LAPLACE-L1", "FLOAT-GRID", "ADJACENCY"}),
    ("scores on other people",
     lambda: TableClassifier(
         5.0, 1e-5, schema={"a": "numeric"}, class_weight="balanced", test_share=0.3
     ).fit({"a": X[:, 0]}, y),
     {"TEST-SHARE", "SCORE-TABLE", "PARALLEL-GROUPS", "CLASS-WEIGHT", "QUANTILE-TREE"}),
    ("partitions",
     lambda: LogisticRegression(norm_bound=1.0).fit(da.from_array(X, chunks=(90, 3)), y),
     GROUND | OBJECTIVE | {"ROUND-ANY-ORDER", "EXACT-SUM"}),
    ("descent in partitions",
     lambda: SGDClassifier(1.0, 1e-5, norm_bound=1.0).fit(da.from_array(X, chunks=(200, 3)), y),
     GROUND | {"ROUND-ANY-ORDER", "FILTER-GDP"}),
    ("bounds", lambda: PrivateBounds().fit(X), {"QUANTILE", "EXPONENTIAL-BR", "ROW-LOCAL"}),
    ("knots", lambda: PrivateKnots().fit(X), {"QUANTILE-TREE", "EXPONENTIAL-BR", "ROW-LOCAL"}),
    ("categories", lambda: PrivateCategories(1.0, 1e-5).fit(X.round()),
     {"CATEGORY-THRESHOLD", "HISTOGRAM", "GAUSS-EXACT", "ROW-LOCAL"}),
    ("selector", lambda: PrivateSelector(2, 1.0, 1e-5).fit(X, y),
     GROUND | {"CLASS-SUMS", "EXACT-SUM"}),
    ("projection", lambda: PrivateProjection(2, 1.0, 1e-5).fit(X),
     GROUND | {"SECOND-MOMENT", "EXACT-SUM", "WHITENING"}),
    ("stream", lambda: SGDClassifier(classes=[0, 1], norm_bound=1.0).fit(iter([(X, y)])),
     GROUND | {"PARALLEL", "LOSS-LOGISTIC"}),
]  # fmt: skip


def check(fit: Callable[[], Any], wanted: set[str]) -> None:
    passed, model = reached(fit)
    guarantee: Guarantee = model.privacy_
    cited = set(guarantee.proofs)
    assert wanted <= cited, wanted - cited
    # No promise rests on these: for SGD the bound on the minimiser's norm chooses a radius, and
    # the solver for the hinge starts where a smooth loss ends.
    free = {"SOLVER-NORM"} if isinstance(model, SGDClassifier) else {"CMS11-Huber"} - wanted
    assert passed - free <= cited, passed - free - cited
    assert len(passed) > 2  # the trace saw something
    assert all(theorem in MEANINGS for theorem in cited), cited - set(MEANINGS)
    assert Guarantee.from_json(guarantee.to_json()) == guarantee


@pytest.mark.parametrize(("fit", "wanted"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_every_proof_that_a_fit_passes_is_cited(fit: Callable[[], Any], wanted: set[str]) -> None:
    check(fit, wanted)


def network(**options: Any) -> Any:
    torch = pytest.importorskip("torch")
    from noisette.nn import PrivateClassifier

    return PrivateClassifier(
        torch.nn.Linear(3, 2), 2.0, 1e-4, epochs=1, batch_size=100, classes=[0, 1], **options
    )


def test_networks_cite_what_they_pass(tmp_path: Path) -> None:
    check(lambda: network().fit(X, y), {"NN-CLIP", "ADJACENCY", "POISSON-R", "COMPOSE"})
    check(
        lambda: network(clipping="adaptive", adjacency="zero-out").fit(X, y),
        {"NN-ADAPTIVE", "NN-CLIP", "POISSON-A"},
    )
    check(
        lambda: network(sampling="cyclic", band=2).fit(X, y),
        {"BANDED-MF", "FILTER-GDP", "NN-CLIP", "PARALLEL"},
    )
    check(
        lambda: network().fit(X, y, sample_epsilon=np.where(np.arange(300) % 2, 2.0, 1.0)),
        {"SAMPLE-LEVELS", "PARALLEL-GROUPS", "NN-CLIP", "POISSON-R"},
    )
    ledger = Ledger.open(tmp_path / "ledger", 2.0, 1e-4)
    check(
        lambda: network(ledger=ledger, checkpoint=tmp_path / "run").fit(X, y), {"RESUME", "NN-CLIP"}
    )
