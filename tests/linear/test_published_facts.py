"""What a fit publishes beside the weights: nothing that tells neighbours apart."""

import itertools

import numpy as np
import pytest

from noisette.errors import InvalidData
from noisette.models import LinearSVC, LogisticRegression, SGDClassifier

N = 60
X = np.random.default_rng(6).standard_normal((N, 3))
Y = np.arange(N) % 2


def test_no_message_tells_how_many_records_there_are() -> None:
    model = LogisticRegression(
        1.0, adjacency="add-remove", population=100, classes=[0, 1], norm_bound=1.0
    )
    with pytest.raises(InvalidData, match="inconsistent numbers") as caught:
        model.fit(X, Y[:-1])
    assert not any(character.isdigit() for character in str(caught.value))


RELATIONS = ["replace-one", "zero-out", "add-remove"]
THREE = {"classes": [0, 1, 2], "norm_bound": 1.0}
MODELS = [
    LogisticRegression(1.0, **THREE),
    LogisticRegression(1.0, 1e-6, **THREE, multi_class="ovr", mechanism="output"),
    LogisticRegression(1.0, 1e-6, **THREE, whiten="auto"),
    LinearSVC(1.0, **THREE, loss="hinge"),
    SGDClassifier(1.0, 1e-6, **THREE),
    SGDClassifier(1.0, 1e-6, **THREE, sampling="poisson", batch_size=10),
    SGDClassifier(1.0, **THREE, sampling="full", epochs=2),
]
# their plans are dear to calibrate, and add-remove tries the other relations' worlds too
DEAR = [
    LogisticRegression(1.0, 1e-6, **THREE, whiten=0.3),
    SGDClassifier(1.0, 1e-6, **THREE, sampling="random-allocation", batch_size=20),
]


@pytest.mark.parametrize(
    ("model", "adjacency"),
    [*itertools.product(MODELS, RELATIONS), *((model, "add-remove") for model in DEAR)],
)
def test_neighbours_publish_the_same_facts(model, adjacency) -> None:
    """One person less, or another one: guarantee, plan, notes and the list of attributes agree."""
    model.set_params(adjacency=adjacency, population=50, random_state=0)
    other = X.copy()
    other[0] = [1e12, 0.0, -1e12]
    labels = np.arange(N) % 2  # nobody of class 2, and then the only one
    changed = np.append(labels[:-1], 2)
    worlds = [(X, labels), (other, changed)]
    if adjacency == "add-remove":
        worlds += [(X[:-1], labels[:-1])]
    found = []
    for rows, y in worlds:
        fitted = model.fit(rows, y)
        attributes = dict(fitted.__dict__)
        released = {name: np.shape(attributes.pop(name)) for name in ("coef_", "intercept_")}
        facts = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in attributes.items()}
        found.append((released, facts, fitted.privacy_.to_json()))
    assert all(world == found[0] for world in found)
