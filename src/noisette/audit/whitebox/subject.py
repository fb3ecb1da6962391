"""`Subject`: an estimator under audit, its public facts, and how to fit it on chosen data."""

import contextlib
import inspect
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette.audit.canaries import Data, Room
from noisette.audit.whitebox.trace import Run, Trace, watched
from noisette.audit.worlds import random_states
from noisette.core.adjacency import Adjacency
from noisette.core.sampling import Sampler
from noisette.core.sampling.base import PassSampler

_NORMS = ("norm_bound", "data_norm", "clip_norm")


@dataclass(frozen=True)
class AuditedEstimator:
    """An unfitted estimator that the audit may clone and fit; the original is never touched."""

    estimator: Any
    claim: tuple[float, float]
    seed: int = 0
    relation: Adjacency | None = None
    bound: float | None = None
    """The relation and the norm bound of a stranger that has no parameter for them."""
    persons: bool = False
    """Whether the claim is about all rows of one person, given to ``fit`` as ``persons``."""

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The constructor's parameters."""
        return dict(self.estimator.get_params(deep=False))

    @cached_property
    def nested(self) -> dict[str, Any]:
        """The parameters of all parts of a stranger, such as the steps of a pipeline."""
        return {} if self.ours else dict(self.estimator.get_params(deep=True))

    def fact(self, name: str) -> Any:
        """Return a parameter of the estimator, else of the only part of it that states one."""
        if self.parameters.get(name) is not None:
            return self.parameters[name]
        parts = [value for key, value in self.nested.items() if key.endswith(f"__{name}")]
        stated = [value for value in parts if value is not None]
        return stated[0] if len(stated) == 1 else None

    @cached_property
    def width(self) -> int | None:
        """The number of features, where a part was fitted beforehand or columns are named."""
        if self.columns is not None:
            return len(self.columns)
        counts = (getattr(part, "n_features_in_", None) for part in self.nested.values())
        return next((count for count in counts if isinstance(count, int)), None)

    @cached_property
    def columns(self) -> list[str] | None:
        """The names of the columns that parts of the estimator ask for, if they ask by name."""
        names: dict[Any, None] = {}
        for part in (self.estimator, *self.nested.values()):
            for entry in getattr(part, "transformers", None) or ():
                asked = entry[-1] if isinstance(entry, tuple) else None
                listed = asked if isinstance(asked, list | tuple) else [asked]
                names |= {each: None for each in listed if isinstance(each, str)}
        return list(names) or None

    @cached_property
    def takes_missing(self) -> bool:
        """Whether a part says that rows may have missing entries, so that the claim covers them."""
        from sklearn.utils import get_tags

        for part in (self.estimator, *self.nested.values()):
            # a class that follows scikit-learn only in part may have no tags
            with contextlib.suppress(Exception):
                if hasattr(part, "fit") and get_tags(part).input_tags.allow_nan:
                    return True
        return False

    @property
    def ours(self) -> bool:
        """Whether it is an estimator of this library, which can be watched from inside."""
        names = {kind.__module__.split(".")[0] for kind in type(self.estimator).__mro__}
        return "noisette" in names and "random_state" in self.parameters

    @property
    def adjacency(self) -> Adjacency:
        """The relation of the claim; replace-one, the founding papers' one, where none is said."""
        return self.relation or Adjacency.of(self.fact("adjacency") or Adjacency.REPLACE_ONE)

    @cached_property
    def classes(self) -> tuple[Any, ...]:
        """The label set: as given, else two labels (three where a scheme for several is asked)."""
        given = self.fact("classes")
        if given is not None:
            return tuple(given)
        several = self.fact("multi_class") in ("ovr", "softmax")
        return (0, 1, 2) if several or self.fact("loss") == "softmax" else (0, 1)

    @property
    def norm(self) -> float:
        """R, the bound on feature rows that the estimator states; 1 where it states none."""
        stated = (self.bound, *map(self.fact, _NORMS))
        numbers = (value for value in stated if isinstance(value, int | float))
        return float(next(filter(math.isfinite, numbers), 1.0))

    def room(self, features: int | None = None) -> Room:
        """Return what canaries must fit into; three features unless the estimator says more."""
        features = self.width or 3 if features is None else features
        sampler, rows = self.fact("sampling"), None
        if isinstance(sampler, Sampler):
            rows = getattr(sampler, "size", None)
            if isinstance(sampler, PassSampler) and sampler.batch_size is not None:
                rows = sampler.batches * sampler.batch_size
        elif sampler not in (None, "auto"):
            rows = 600  # several batches, and one calibration for all canaries
        guess = self.fact("population") if self.adjacency is Adjacency.ADD_REMOVE else None
        most = int(guess) if guess else None
        rows = min(rows, most) if rows and most else rows
        null = "sample_weight" if self.takes("sample_weight") else "sample_epsilon"
        if not self.parameters.get("fit_intercept", True):
            null = "zero-row"
        return Room(
            self.norm, self.classes, self.adjacency, features, rows, most, null, self.claim[0],
            self.persons,
        )  # fmt: skip

    def takes(self, argument: str) -> bool:
        """Whether ``fit`` has this argument."""
        return argument in inspect.signature(self.estimator.fit).parameters

    def unseeded(self, **more: Any) -> Any:
        """Return a clone whose parts all have the randomness that its users get."""
        return self.make(**dict.fromkeys(random_states(self.estimator)), **more)

    def make(self, **changes: Any) -> Any:
        """Return a clone without ledger and output, with the label set named."""
        from sklearn.base import clone

        bare = clone(self.estimator)
        wanted = {"ledger": None, "verbose": 0, "classes": list(self.classes), **changes}
        if self.ours:
            bare.set_params(**{k: v for k, v in wanted.items() if k in self.parameters})
        else:  # the ledgers of its parts are left alone as well
            ledgers = [name for name in self.nested if name.rpartition("__")[2] == "ledger"]
            bare.set_params(**dict.fromkeys(ledgers), **changes)
        return bare

    def fit(
        self, data: Data, *, seed: int = 0, reference: Trace | None = None,
        watch: NDArray[np.intp] | None = None,
    ) -> tuple[Any, Trace]:  # fmt: skip
        """Fit one of ours under a tape and return (model, trace)."""
        return watched(self.on(data), 1_000_003 * self.seed + seed, reference, watch)

    def on(self, data: Data) -> Run:
        """Return a fit of ours on these data, under a source of randomness."""
        return lambda tape: self.make(random_state=tape).fit(data.X, data.y, **data.options)
