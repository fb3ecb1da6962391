"""What several tests of the one-shot models look at."""

from typing import Any

import pytest

from noisette.models import linear_model


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Record what the estimator hands to the training."""
    found: dict[str, Any] = {}
    original = linear_model.train

    def spy(algorithm: Any, facts: Any, records: Any, **options: Any) -> Any:
        found.update(algorithm=algorithm.name, facts=facts, loss=facts.loss)
        found.update(rows=records.rows, targets=records.targets, sample_weight=records.weights)
        found["trained"] = original(algorithm, facts, records, **options)
        return found["trained"]

    monkeypatch.setattr(linear_model, "train", spy)
    return found
