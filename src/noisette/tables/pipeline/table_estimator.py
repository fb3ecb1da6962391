"""`TableEstimator`: what the two models of raw tables share, from the schema to the fit."""

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any, Self

import numpy as np

from noisette import _validate
from noisette._scikit import check_is_fitted
from noisette._typing import Floats
from noisette.core.ledger import Ledger
from noisette.core.randomness import Randomness
from noisette.errors import InvalidData, InvalidParameter, WeakModelWarning
from noisette.fitting.algorithms import Prepared, Trained, train
from noisette.fitting.algorithms.public import PublicBudget
from noisette.fitting.algorithms.recommend import Recommendation
from noisette.fitting.algorithms.train import checked
from noisette.fitting.partitions.collections import is_dask
from noisette.models import inputs
from noisette.models.outputs import size_facts
from noisette.models.private import Forecast
from noisette.scores.layouts import layout_for
from noisette.tables import Schema, read_schema
from noisette.tables.frame import Frame
from noisette.tables.person_facts import planned_unit
from noisette.tables.pipeline.bars import read_bars
from noisette.tables.pipeline.categories import keys_of
from noisette.tables.pipeline.curves import ColumnCurve, blank, curves_of, plotted, score_unit
from noisette.tables.pipeline.pairs import ColumnPair, PairSurface, checked_pairs
from noisette.tables.pipeline.recipe import recipe_for
from noisette.tables.pipeline.table_columns import unread_in
from noisette.tables.pipeline.table_forecast import table_forecast
from noisette.tables.pipeline.table_rows import PartedFrame, WholeFrame
from noisette.tables.pipeline.table_run import FittedTable, TableSample, table_scores
from noisette.tables.pipeline.table_training import TableTraining
from noisette.tables.pipeline.table_words import spent
from noisette.tables.pipeline.target import Goal, NumberTarget, Target
from noisette.tables.pipeline.train_and_test import TrainAndTest, divided
from noisette.tables.pipeline.transformer import BudgetedEstimator
from noisette.tables.pipeline.typical_table import TypicalTable

TARGET = "the label"
"""The name of a target that is no column of the table."""

_BUCKETS = 128


class TableEstimator(BudgetedEstimator):
    """A linear model of a raw table, of which only the kinds of the columns are known.

    A subclass has ``_foreseen(schema)``, the target without its values; ``_read(schema, y, rows,
    size)``, the target and its values, or a refusal; ``_publish(fitted)``, which takes what was
    released; ``_told(target)``, what is public of the target of a fitted model and notes on it; and
    ``_unnamed(name)``, what a schema says of a target that is no column of the table.
    """

    pairs: Any = None  # additive models have this parameter
    pairs_: tuple[ColumnPair, ...] = ()

    _curves = False
    _whole: str
    """What is released, but for the scores on other people."""

    @property
    def _released(self) -> str:  # type: ignore[override]
        return self._whole + " and its scores on other people" * (self.test_share is not None)

    def _forecast(self, n: int, **asked: Any) -> Forecast:
        """Return what ``fit`` on n rows would release and cost."""
        ledger, _ = self._check_public()
        n = _validate.integer("n", n)
        schema = self._read_schema(target=False)
        public = self._public(planned_unit(schema.persons, n), ledger.adjacency)
        public = replace(public, size=public.size or n)
        goal, most = self._foreseen(schema, **asked), self._for_training(public)
        training = self._training(schema, goal.target, most)
        shown = table_forecast(training, training.prepare(most), most.known_size("a plan"))
        if self.test_share is None:
            return shown
        return replace(shown, plan=self._tested(training, goal, ledger).prepare(public).plan)

    def fit(self, X: Any, y: Any = None, persons: Any = None) -> Self:
        """Learn the facts and train, privately.

        Parameters
        ----------
        X : table
            A pandas, polars or pyarrow table, or a dictionary of columns.
        y : array-like, optional
            The labels, or the numbers to predict; None takes the column that the schema names as
            target.
        persons : array-like or Persons, optional
            Whose row each row is, by any identifier; None takes it from the column that the
            schema names as person, if it names one. The guarantee is then about persons with
            all their rows, whose weights add up to one; ``population`` counts persons.

        %(fitted)

        """
        with self._all_or_nothing(X):
            ledger, randomness = self._check_public()
            algorithm, public, sample, training, goal = self._ready(ledger, X, y, persons)
            trained: Trained = train(
                algorithm, public, sample, ledger=ledger, randomness=randomness,
                label="fit", model=type(self).__name__,
            )  # fmt: skip
            self.__dict__.pop("test_", None)
            fitted, notes = trained.released, spent(training, pure=public.delta == 0.0)
            if self.test_share is not None:
                fitted, self.test_ = trained.released
                notes += (
                    f"A share of {self.test_share:g} of the people, drawn without a look at their "
                    "values, had no part in the training; the scores in test_ are about them and "
                    "covered by this guarantee.",
                    *self.test_.notes,
                )
            self.__dict__.update(goal.known)
            self._publish(fitted)
            self.feature_names_in_ = np.array(list(training.schema.by_name), dtype=object)
            self.n_features_in_ = len(self.feature_names_in_)
            fact, more = self._told(goal.target)
            facts = (
                *size_facts(public, public.size, solved=True),
                f"the {self.n_features_in_} columns, their names and kinds and what is stated",
                fact, "all parameters of the estimator and the program",
            )  # fmt: skip
            self.privacy_ = self._stated(
                trained.permit, public=facts, notes=(*notes, *fitted.notes, *more),
                proofs=trained.proofs, unit=sample.unit,
            )  # fmt: skip
            if self.test_share is not None:
                self.test_ = replace(self.test_, privacy_=self.privacy_)
        for sentence in unread_in(self).values():  # once all is paid and kept
            warnings.warn(sentence, WeakModelWarning, stacklevel=2)
        return self

    def _prepared(self, X: Any, y: Any) -> Prepared:
        with self._all_or_nothing(look=True):
            ready = self._ready(self._check_public()[0], X, y, None)
            return checked(*ready[:3])  # type: ignore[no-any-return]

    def _ready(
        self, ledger: Ledger, X: Any, y: Any, persons: Any
    ) -> tuple[Any, PublicBudget, TableSample, TableTraining, Goal]:
        """Read the data and choose, before anything is charged."""
        schema, target = self._read_schema(target=y is None), y is None
        table: WholeFrame | PartedFrame = (
            PartedFrame.of(X, schema, target=target)
            if is_dask(X)
            else WholeFrame(Frame.of(X, schema, target=target))
        )
        named = schema.persons
        whole = persons is None and named is None
        if not table.tests_persons and self.test_share is not None and not whole:
            raise InvalidParameter(
                "test_share and persons are not offered together for tables in partitions; train "
                "on some of them and use evaluate on others, of other people."
            )
        if named is not None and persons is not None:
            raise InvalidParameter(
                f"the schema names column {named.column!r} as person; leave out persons."
            )
        ids = persons if named is None else table.persons()
        unit = inputs.unit_of(ids, table.rows, ledger.adjacency, table.input)
        if table.rows < self._least:
            raise InvalidData("the table has no rows.")
        public = self._public(unit, ledger.adjacency)
        goal = self._read(schema, table.targets(y), table.rows, public.size)
        most = self._for_training(public)
        training = self._training(schema, goal.target, most)
        if most.size is not None:
            # warn before the charge if the model can hardly learn; refuse what cannot be paid for
            if training.last is not None:
                sentence, hopeless = training.last.warning, False
            else:
                typical = TypicalTable(training, training.prepare(most), most.size)
                sentence, hopeless = typical.warning()
            if hopeless:
                raise InvalidParameter(sentence)
            if sentence:
                warnings.warn(sentence, WeakModelWarning, stacklevel=3)
        algorithm = training if self.test_share is None else self._tested(training, goal, ledger)
        return algorithm, public, TableSample(table, goal.y, unit), training, goal

    def _training(self, schema: Schema, target: Target, public: PublicBudget) -> TableTraining:
        pairs = checked_pairs(self.pairs, schema)
        recipe = partial(
            recipe_for, public, numbers=isinstance(target, NumberTarget), curves=self._curves
        )
        bare = TableTraining(schema, target, recipe(numeric=0, counted=1, unknown=0), pairs)
        if bare.unknown:
            keys_of(public)  # which refuses persons without a cap
        chosen = recipe(
            numeric=len(bare.numbers) + target.buys, counted=len(bare.counted) + 1,
            unknown=len(bare.unknown), pairs=len(pairs),
            share=self.share if self.share is not None else schema.share,
        )  # fmt: skip
        training = replace(bare, recipe=chosen)
        if isinstance(target, NumberTarget):
            training = target.settled(training, public, stated=self.share is not None)
        return replace(training, last=self._last(training, public))

    def _last(self, training: TableTraining, public: PublicBudget) -> Recommendation | None:
        """Return another last algorithm than objective perturbation, if one was asked for."""
        return None

    def _check_public(self) -> tuple[Ledger, Randomness]:
        for name in ("share", "test_share"):
            if getattr(self, name) is not None:
                _validate.fraction(name, getattr(self, name))
        if self.schema is None:
            raise InvalidParameter(
                f"{type(self).__name__} needs the kind of every column, which no table may tell: "
                "schema={'age': 'numeric', 'ward': 'categorical', ...}."
            )
        return super()._check_public()

    def _read_schema(self, *, target: bool) -> Schema:
        """Return the schema in which every learnt column has a slot for missing cells."""
        if isinstance(self.schema, Schema):
            node = copy.deepcopy(self.schema.source)
        elif isinstance(self.schema, str | Path):
            node = copy.deepcopy(read_schema(Path(self.schema), learn=True).source)
        elif isinstance(self.schema, Mapping):
            node = copy.deepcopy(dict(self.schema))
            if not isinstance(node.get("columns"), Mapping):  # one may be named so
                node = {"columns": node}
        else:
            raise InvalidParameter("schema must be a dictionary of kinds, a Schema or a path.")
        columns: dict[str, Any] = {}
        for name, facts in node["columns"].items():
            columns[str(name)] = facts = {"kind": facts} if isinstance(facts, str) else facts
            if isinstance(facts, dict) and facts.get("kind") not in ("ignore", None):
                facts.setdefault("missing_slot", True)
        node["columns"], unnamed = columns, TARGET
        while unnamed in columns:
            unnamed += "'"
        implied = ({} if target else self._unnamed(unnamed)) | {"unit": "one row is one record"}
        for key, value in implied.items():
            node.setdefault(key, value)
        schema = Schema.from_dict(node, learn=True)
        if self.delta > 0.0:
            return schema
        # Without a delta no level may be learnt; a public hash tells most of them apart for free.
        for column in schema.open:
            if column.buys == "levels":
                missing = {"missing": list(column.missing)} if column.missing else {}
                columns[column.name] = {
                    "kind": "hashed", "buckets": _BUCKETS, "missing_slot": True, **missing,
                }  # fmt: skip
        return Schema.from_dict(node, learn=True)

    def _for_training(self, public: PublicBudget) -> PublicBudget:
        """Return the public facts of those who are trained on."""
        return public if self.test_share is None else divided(public, self.test_share)[0]

    def _tested(self, training: TableTraining, goal: Goal, ledger: Ledger) -> TrainAndTest:
        """Return the training with a test on other people."""
        assert self.test_share is not None
        bare = copy.copy(self)  # as far as it is public
        bare.__dict__.update(goal.known)

        def model(fitted: FittedTable) -> Any:
            made = copy.copy(bare)
            made._publish(fitted)
            return made

        layout, pure = layout_for(bare), ledger.rule == "sums"
        return TrainAndTest(training, layout, self.test_share, model, pure)

    @property
    def width_(self) -> int:
        """The number of encoded features."""
        return len(self.schema_.features)

    def _restore(self, source: dict[str, Any], bars: Any = None, pairs: Any = None) -> None:
        """Take the learnt facts of a model file, and the noise of its weights."""
        self.schema_ = Schema.from_dict(source)
        classes = len(getattr(self, "classes_", ()))
        widths = {c.name: len(c.features) for c in self.schema_.columns if c.features}
        outputs = classes if classes > 2 else 1
        self.bars_ = read_bars(bars, widths, outputs)
        self.pairs_ = tuple(ColumnPair.read(node, self.schema_, outputs) for node in pairs or ())

    def curves(self) -> tuple[ColumnCurve, ...]:
        """Return for each column what its cells add to the score, in the column's own units.

        It costs nothing: all of it follows from released values.

        Returns
        -------
        tuple of ColumnCurve
            One for each column that the model uses, with the noise of every point.

        Examples
        --------
        >>> import numpy as np
        >>> from noisette import TableClassifier
        >>> age = np.arange(2000) % 80
        >>> model = TableClassifier(2.0, 1e-6, schema={"age": "numeric"}, random_state=0)
        >>> (curve,) = model.fit({"age": age}, age > 40).curves()
        >>> curve.column, bool(curve.value[0] < curve.value[-1])
        ('age', True)
        >>> model.plot(["age"]).axes[0].get_title(), model.surfaces()
        ('age', ())

        """
        check_is_fitted(self, "schema_")
        found, unread = curves_of(self.schema_, np.asarray(self.coef_), self.bars_), unread_in(self)
        return tuple(
            blank(curve, unread[curve.column]) if curve.column in unread else curve
            for curve in found
        )

    def plot(self, columns: Sequence[str] | None = None) -> Any:
        """Draw the curves of columns with their noise bands; needs the extra ``plot``.

        Parameters
        ----------
        columns : sequence of str, optional
            Which ones; by default all, and the pairs of columns as heat maps.

        Returns
        -------
        matplotlib.figure.Figure
            One picture for each column.

        Raises
        ------
        InvalidParameter
            If the model uses no such column.
        MissingExtra
            If matplotlib is absent.

        """
        curves = {curve.column: curve for curve in self.curves()}
        for name in columns or ():
            _validate.choice("columns", name, tuple(curves))
        surfaces = self.surfaces() if columns is None else ()
        return plotted([curves[name] for name in columns or curves], score_unit(self), surfaces)

    def surfaces(self) -> tuple[PairSurface, ...]:
        """Return for each pair of columns what their cells add together; () without pairs.

        It costs nothing: all of it follows from released values.

        Returns
        -------
        tuple of PairSurface
            One for each pair that the model uses, with the noise of every cell.

        """
        check_is_fitted(self, "schema_")
        return tuple(map(methodcaller("surface", self.schema_), self.pairs_))

    def _scores(self, X: Any) -> Floats:
        found = []
        for _, block in Frame.of(X, self.schema_).blocks():
            scores = table_scores(block, self.schema_, np.atleast_2d(self.coef_), self.pairs_)
            found.append(scores.reshape(-1, *self.coef_.shape[:-1]))
        return np.asarray(np.concatenate(found) + self.intercept_)
