"""`TableEstimator`: what the two models of raw tables share, from the schema to the fit."""

import copy
import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from noisette import _validate
from noisette._scikit import check_is_fitted
from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.ledger import Ledger
from noisette.core.randomness import Randomness, as_randomness
from noisette.errors import InvalidData, InvalidParameter, WeakModelWarning
from noisette.fitting.algorithms import Prepared, Trained, train
from noisette.fitting.algorithms.public import PublicBudget
from noisette.fitting.algorithms.recommend import Recommendation
from noisette.fitting.algorithms.train import checked
from noisette.fitting.units import Unit
from noisette.models import inputs
from noisette.models.outputs import size_facts
from noisette.models.private import PrivateEstimator
from noisette.scores.layouts import layout_for
from noisette.tables import Schema, read_schema
from noisette.tables.frame import Frame
from noisette.tables.person_facts import planned_unit
from noisette.tables.pipeline.bars import read_bars
from noisette.tables.pipeline.categories import keys_of
from noisette.tables.pipeline.curves import ColumnCurve, blank, curves_of, plotted, score_unit
from noisette.tables.pipeline.pairs import (
    ColumnPair,
    PairSurface,
    checked_pairs,
    pair_scores,
    surfaces_of,
)
from noisette.tables.pipeline.table_columns import unread_in
from noisette.tables.pipeline.table_outlook import TableOutlook, table_outlook
from noisette.tables.pipeline.table_rows import frame_of
from noisette.tables.pipeline.table_training import FittedTable, TableSample, TableTraining
from noisette.tables.pipeline.table_words import on_others, spent
from noisette.tables.pipeline.target import LINES, Goal, Target
from noisette.tables.pipeline.train_and_test import TrainAndTest, divided
from noisette.tables.pipeline.typical_table import TypicalTable, judged

TARGET = "the label"
"""The name of a target that is no column of the table."""

_BUCKETS = 128


class TableEstimator(PrivateEstimator):
    """A linear model of a raw table, of which only the kinds of the columns are known."""

    epsilon: float
    delta: float
    schema: Any
    adjacency: str
    population: int | None
    test_share: float | None
    share: float | None
    random_state: int | Randomness | None
    pairs: Any = None  # additive models have this parameter
    pairs_: tuple[ColumnPair, ...] = ()

    _whole: str
    """What is released, but for the scores on other people."""

    @property
    def _released(self) -> str:  # type: ignore[override]
        tested = "" if self.test_share is None else " and its scores on other people"
        return self._whole + tested

    _shape = LINES

    def _outlook(self, n: int, **asked: Any) -> TableOutlook:
        """Return what ``fit`` on n rows would release and cost."""
        ledger, _ = self._check_public()
        n = _validate.integer("n", n)
        schema = self._read_schema(target=False)
        public = self._public(planned_unit(schema.persons, n), ledger.adjacency)
        public = replace(public, size=public.size or n)
        goal, most = self._foreseen(schema, **asked), self._for_training(public)
        training = self._training(schema, goal.target, most)
        shown = table_outlook(training, training.prepare(most), most.known_size("a plan"))
        if self.test_share is None:
            return shown
        tested = self._tested(training, goal, ledger)
        return replace(shown, plan=tested.prepare(public).plan)

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

        Returns
        -------
        self
            The fitted model.

        """
        with self._all_or_nothing(X):
            self._fit(X, y, persons)
        self._warn_unread()
        return self

    def _fit(self, X: Any, y: Any, persons: Any) -> None:
        ledger, randomness = self._check_public()
        algorithm, public, sample, training, goal = self._ready(ledger, X, y, persons)
        trained: Trained = train(
            algorithm, public, sample, ledger=ledger, randomness=randomness,
            label="fit", model=type(self).__name__,
        )  # fmt: skip
        notes = self._kept(trained, training, goal, public)
        fact, more = self._told(goal.target)
        self._promised(trained, (*notes, *more), public, fact, sample.unit)

    def _prepared(self, X: Any, y: Any) -> Prepared:
        with self._as_it_was():
            found: Prepared = checked(*self._ready(self._check_public()[0], X, y, None)[:3])
            return found

    def _ready(
        self, ledger: Ledger, X: Any, y: Any, persons: Any
    ) -> tuple[Any, PublicBudget, TableSample, TableTraining, Goal]:
        """Read the data and choose, before anything is charged."""
        schema = self._read_schema(target=y is None)
        table = frame_of(X, schema, target=y is None)
        self._check_parts(table, persons)
        unit = self._unit(persons, table, schema, ledger.adjacency)
        if table.rows < self._least:
            raise InvalidData("the table has no rows.")
        public = self._public(unit, ledger.adjacency)
        y = table.labels() if y is None else table.beside(y)
        goal = self._read(schema, y, table.rows, public.size)
        training = self._training(schema, goal.target, self._for_training(public))
        sample = TableSample(table, goal.y, unit)
        sample.pairs = len(training.used_pairs)
        self._judge(training, self._for_training(public), depth=5)
        algorithm = training if self.test_share is None else self._tested(training, goal, ledger)
        return algorithm, public, sample, training, goal

    @abstractmethod
    def _check_public(self) -> tuple[Ledger, Randomness]:
        """Check every parameter before the data are looked at."""

    @abstractmethod
    def _foreseen(self, schema: Schema) -> Goal:
        """Return the target without its values."""

    @abstractmethod
    def _read(self, schema: Schema, y: Any, rows: int, size: int | None) -> Goal:
        """Return the target and its values, or refuse them; `size` is public."""

    @abstractmethod
    def _told(self, target: Target) -> tuple[str, tuple[str, ...]]:
        """Return what is public of the target of a fitted model, and notes on it."""

    def _training(self, schema: Schema, target: Target, public: PublicBudget) -> TableTraining:
        pairs = checked_pairs(self.pairs, schema)
        least = target.recipe(self._shape, public, numeric=0, counted=1, unknown=0)
        bare = TableTraining(schema, target, least, pairs)
        if bare.unknown:
            keys_of(public)  # which refuses persons without a cap
        recipe = target.recipe(
            self._shape,
            public,
            len(pairs),
            numeric=len(bare.numbers) + target.buys,
            counted=len(bare.counted) + 1,
            unknown=len(bare.unknown),
            share=self.share if self.share is not None else schema.share,
        )
        training = replace(bare, recipe=recipe)
        training = target.settled(training, public, stated=self.share is not None)
        return replace(training, last=self._last(training, public))

    def _last(self, training: TableTraining, public: PublicBudget) -> Recommendation | None:
        """Return another last algorithm than objective perturbation, if one was asked for."""
        return None

    @abstractmethod
    def _unnamed(self, name: str) -> dict[str, Any]:
        """Return what a schema says of a target that is no column of the table."""

    def _check_table(self) -> tuple[Ledger, Randomness]:
        epsilon, delta = _validate.epsilon(self.epsilon), _validate.delta(self.delta)
        adjacency = Adjacency.of(self.adjacency)
        if self.population is not None:
            _validate.integer("population", self.population)
        for name in ("share", "test_share"):
            if getattr(self, name) is not None:
                _validate.fraction(name, getattr(self, name))
        if self.schema is None:
            raise InvalidParameter(
                f"{type(self).__name__} needs the kind of every column, which no table may tell: "
                "schema={'age': 'numeric', 'ward': 'categorical', ...}."
            )
        return self._ledger_to_charge(epsilon, delta, adjacency), as_randomness(self.random_state)

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
        node["columns"] = {
            str(name): {"kind": facts} if isinstance(facts, str) else facts
            for name, facts in node["columns"].items()
        }
        for facts in node["columns"].values():
            if isinstance(facts, dict) and facts.get("kind") not in ("ignore", None):
                facts.setdefault("missing_slot", True)
        if not target:
            name = TARGET
            while name in node["columns"]:
                name += "'"
            for key, value in self._unnamed(name).items():
                node.setdefault(key, value)
        node.setdefault("unit", "one row is one record")
        schema = Schema.from_dict(node, learn=True)
        if self.delta > 0.0:
            return schema
        # Without a delta no level may be learnt; a public hash tells most of them apart for free.
        for column in schema.open:
            if column.buys == "levels":
                facts = {"kind": "hashed", "buckets": _BUCKETS, "missing_slot": True}
                node["columns"][column.name] = facts | (
                    {"missing": list(column.missing)} if column.missing else {}
                )
        return Schema.from_dict(node, learn=True)

    def _unit(self, given: Any, table: Any, schema: Schema, adjacency: Adjacency) -> Unit:
        """Return whose rows they are: as given, or by the column that the schema names."""
        if schema.persons is None:
            return inputs.unit_of(given, table.rows, adjacency, table.input)
        if given is not None:
            raise InvalidParameter(
                f"the schema names column {schema.persons.column!r} as person; leave out persons."
            )
        return inputs.unit_of(table.persons(), table.rows, adjacency, table.input)

    def _check_parts(self, table: Any, persons: Any) -> None:
        """Refuse what is not offered for a table in partitions."""
        whole = persons is None and table.schema.persons is None
        if not table.tests_persons and self.test_share is not None and not whole:
            raise InvalidParameter(
                "test_share and persons are not offered together for tables in partitions; train "
                "on some of them and use evaluate on others, of other people."
            )

    def _public(self, unit: Unit, adjacency: Adjacency) -> PublicBudget:
        known = unit.known(adjacency, self.population)
        _validate.delta_for(self.delta, known["size"])
        return PublicBudget(
            epsilon=float(self.epsilon), delta=float(self.delta), adjacency=adjacency, **known
        )

    def _judge(self, training: TableTraining, public: PublicBudget, depth: int = 4) -> None:
        """Warn before the charge if the model can hardly learn; refuse what cannot be paid for."""
        if public.size is None:
            return
        if training.last is not None:
            if training.last.warning:
                warnings.warn(training.last.warning, WeakModelWarning, stacklevel=depth)
            return
        found = judged(TypicalTable(training, training.prepare(public), public.size))
        if found.hopeless:
            raise InvalidParameter(found.sentence)
        if found.sentence:
            warnings.warn(found.sentence, WeakModelWarning, stacklevel=depth)

    @abstractmethod
    def _publish(self, fitted: FittedTable) -> None:
        """Take what was released."""

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

    def _kept(
        self, trained: Trained, training: TableTraining, goal: Goal, public: PublicBudget
    ) -> tuple[str, ...]:
        """Keep what was released, and return its notes."""
        self.__dict__.pop("test_", None)
        fitted, notes = trained.released, tuple[str, ...]()
        if self.test_share is not None:
            fitted, self.test_ = fitted.fitted, fitted.scores
            notes = (on_others(self.test_share), *self.test_.notes)
        self.__dict__.update(goal.known)
        self._publish(fitted)
        columns = training.schema.columns
        self.n_features_in_ = len(columns)
        self.feature_names_in_ = np.array([c.name for c in columns], dtype=object)
        return (*spent(training, pure=public.delta == 0.0), *notes, *fitted.notes)

    def _promised(
        self, trained: Trained, notes: tuple[str, ...], public: PublicBudget, target: str,
        unit: Unit,
    ) -> None:  # fmt: skip
        """State the guarantee; `target` is what is public of the target."""
        count = self.n_features_in_
        columns = f"the {count} columns, their names and kinds and what is stated"
        program = "all parameters of the estimator and the program"
        sizes = size_facts(public, public.size, solved=True)
        self.privacy_ = self._stated(
            trained.permit, public=(*sizes, columns, target, program), notes=notes,
            proofs=trained.proofs, unit=unit,
        )  # fmt: skip
        if self.test_share is not None:
            self.test_ = replace(self.test_, privacy_=self.privacy_)

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

        """
        check_is_fitted(self, "schema_")
        found, unread = curves_of(self.schema_, np.asarray(self.coef_), self.bars_), unread_in(self)
        return tuple(
            blank(curve, unread[curve.column]) if curve.column in unread else curve
            for curve in found
        )

    def _warn_unread(self) -> None:
        """Warn, once all is paid and kept, of columns of which nearly no cell was read."""
        for sentence in unread_in(self).values():
            warnings.warn(sentence, WeakModelWarning, stacklevel=3)

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

        Examples
        --------
        >>> import numpy as np
        >>> from noisette import TableClassifier
        >>> age = np.arange(2000) % 80
        >>> model = TableClassifier(2.0, 1e-6, schema={"age": "numeric"}, random_state=0)
        >>> model.fit({"age": age}, age > 40).plot().axes[0].get_title()
        'age'

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

        Examples
        --------
        >>> import numpy as np
        >>> from noisette import TableClassifier
        >>> age = np.arange(2000) % 80
        >>> model = TableClassifier(2.0, 1e-6, schema={"age": "numeric"}, random_state=0)
        >>> model.fit({"age": age}, age > 40).surfaces()
        ()

        """
        check_is_fitted(self, "schema_")
        return surfaces_of(self.schema_, self.pairs_)

    def _scores(self, X: Any) -> Floats:
        frame = Frame.of(X, self.schema_)
        found = [self._added(block) for _, block in frame.blocks()]
        return np.asarray(np.concatenate(found) + self.intercept_)

    def _added(self, block: Frame) -> Floats:
        """Return what columns and pairs add to the scores of some rows."""
        rows = block.encode(self.schema_, cut=False)
        scores = np.asarray(rows @ self.coef_.T, dtype=np.float64)
        if not self.pairs_:
            return scores
        added = pair_scores(self.schema_.columns, block.columns, self.pairs_)
        return np.asarray(scores + added.reshape(scores.shape))
