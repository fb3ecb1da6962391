"""`card_of`: a fitted linear model as a scoring card, which a few lines of Python evaluate.

The card is plain JSON: an intercept, and for each column how a cell becomes pairs of a value and
its weights. A number is a point between two knots, goes through views (a curve, moved and scaled),
or stands as it is; a category is a level, or a slot by a public hash. The score is the intercept
and all values times weights, after the row was cut to the length ``cut``, where there is one.
Everything on the card was released. ``docs/additive.md`` has the lines that evaluate it.

`onnx_of` makes an ONNX graph (extra ``onnx``) of the card, so both say the same. A model of raw
tables has one input for each column, each of shape (rows,): numbers as doubles (NaN is missing;
dates as days since 1970 and whatever else is read from texts as the number that it becomes, for
ONNX reads none), categories as texts ("" is missing), hashed columns as the number of their slot
(int64), for ONNX has no such hash. A model of matrices has one input X of doubles. What stands on a
card and has no form here is refused.
"""

import re
from typing import Any

import numpy as np

from noisette._typing import Floats
from noisette.errors import InvalidParameter, MissingExtra
from noisette.models import PoissonRegressor
from noisette.tables import Schema
from noisette.tables.kinds.rows import slices

CARD = 2
"""The format of scoring cards."""
_OPSET, _TABLES = 17, 3  # of ONNX, and of its part for tables
KNOWN = {
    "name", "slots", "levels", "other", "cycle", "views", "knots", "weights", "missing", "codes",
    "range", "texts", "days", "forms",
}  # fmt: skip
"""What a card may say of a column of a table that goes into an ONNX graph."""
MATRIX = "X"
"""The input of a model of matrices."""


def card_of(model: Any, schema: Schema | None = None) -> dict[str, Any]:
    """Return the card of a fitted model; refuse what has no such form.

    `schema` is that of a model of matrices which reads tables through it.
    """
    if not hasattr(model, "privacy_"):
        raise InvalidParameter("only a fitted model can be exported.")
    if getattr(model, "pairs_", ()):
        raise InvalidParameter(
            "a model with pairs of columns cannot be exported, since each cell of a card or graph "
            "counts by itself; train without pairs to export."
        )
    of_tables, classifies = hasattr(model, "schema_"), hasattr(model, "classes_")
    facts = model.schema_ if of_tables else schema
    scale = 1.0 if of_tables or facts is None else facts.row_norm
    weights = np.atleast_2d(np.asarray(model.coef_)).T / scale
    if facts is None:  # the columns of a matrix: each number counts as it is
        names = map(
            str, getattr(model, "feature_names_in_", map("feature {}".format, range(len(weights))))
        )
        columns = [{"name": name, "slope": row.tolist(), "missing": [], "codes": []}
                   for name, row in zip(names, weights, strict=True)]  # fmt: skip
    else:
        columns = [{"name": column.name, **column.card(weights[part])}
                   for column, part in slices(facts.columns)]  # fmt: skip
    cuts = [] if of_tables or facts is None else [scale]
    if not (of_tables or classifies or model.norm_bound is None):
        cuts.append(float(model.norm_bound) * scale)  # regressors predict of cut rows
    node: dict[str, Any] = {
        "noisette_card": CARD,
        "target": None if facts is None else facts.target,
        "kind": "classifier" if classifies else "regressor",
        "intercept": np.atleast_1d(np.asarray(model.intercept_)).tolist(),
        "cut": min(cuts, default=None),
        "columns": columns,
        "guarantee": model.privacy_.statement(),
    }
    if classifies:
        probabilities = hasattr(model, "predict_proba")
        return node | {"classes": model.classes_.tolist(), "probabilities": probabilities}
    limits = getattr(model, "target_bounds_", None) if of_tables else None
    counts = isinstance(model, PoissonRegressor)
    limits = model.target_bounds if counts else limits
    link = "log" if counts else "identity"
    return node | {"link": link, "bounds": None if limits is None else list(map(float, limits))}


def onnx_of(model: Any, schema: Schema | None = None) -> Any:
    """Return the ONNX model (`onnx.ModelProto`) of a fitted model; `schema` as in `card_of`."""
    try:
        import onnx
    except ImportError:
        raise MissingExtra("an ONNX graph needs onnx: pip install 'noisette[onnx]'.") from None
    card, helper = card_of(model, schema), onnx.helper
    graph = _Graph(onnx, len(card["intercept"]))
    if card["target"] is None:
        inputs = graph.matrix(card)
    else:
        inputs = [graph.column(each) for each in card["columns"]]
    outputs = graph.outputs(graph.score(card), card)
    made = helper.make_graph(graph.nodes, "noisette", inputs, outputs, graph.constants)
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("ai.onnx.ml", _TABLES)]
    proto = helper.make_model(made, opset_imports=opsets, producer_name="noisette")
    proto.ir_version = 8
    proto.doc_string = card["guarantee"]
    onnx.checker.check_model(proto)
    return proto


class _Graph:
    """Nodes and constants as they are made; `parts` are what columns add, with their squares."""

    def __init__(self, onnx: Any, outputs: int) -> None:
        self._onnx, self._types, self._outputs = onnx, onnx.TensorProto, outputs
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.parts: list[tuple[str, str]] = []

    def node(self, kind: str, *inputs: Any, name: str = "", **attributes: Any) -> str:
        """Add a node and return its name; an input that is no name becomes a constant."""
        names = []
        for each in inputs:
            names.append(each if isinstance(each, str) else f"k{len(self.constants)}")
            if not isinstance(each, str):
                value = self._onnx.numpy_helper.from_array(np.asarray(each), names[-1])
                self.constants.append(value)
        name = name or f"n{len(self.nodes)}"
        self.nodes.append(self._onnx.helper.make_node(kind, names, [name], **attributes))
        return name

    def _described(self, name: str, kind: Any, *shape: int) -> Any:
        return self._onnx.helper.make_tensor_value_info(name, kind, ["rows", *shape])

    def column(self, column: dict[str, Any]) -> Any:
        """Add what a column adds; return the description of its input."""
        name, kind = column["name"], self._types.DOUBLE
        if unknown := sorted(column.keys() - KNOWN):
            raise InvalidParameter(
                f"column {name!r} cannot be part of an ONNX graph, which has no form for "
                f"{', '.join(unknown)} of its scoring card; export the card."
            )
        if "slots" in column:
            kind = self._types.INT64
            rows = [*column["slots"], column["levels"][""]]  # the last one is for missing cells
            self.parts.append(self._gathered(rows, name))
        elif "levels" in column:  # its row in a table, the last row for any other text
            kind = self._types.STRING
            places: dict[str, int] = {}
            for row, text in enumerate(column["levels"]):
                # the texts by which a level is most often written: ONNX has no rule for numbers
                spellings = [text]
                if text in ("true", "false"):
                    spellings += [text.capitalize(), text.upper()]
                elif re.fullmatch(r"[+-]?\d+", text):
                    spellings.append(f"{text}.0")
                for spelling in spellings:
                    places.setdefault(spelling, row)
            rows = [*column["levels"].values(), column["other"]]
            place = self.node(
                "LabelEncoder", name, domain="ai.onnx.ml", keys_strings=list(places),
                values_int64s=list(places.values()), default_int64=len(rows) - 1,
            )  # fmt: skip
            self.parts.append(self._gathered(rows, place))
        elif "cycle" in column:
            # what a day of the cycle adds; the last row of the table is for missing cells
            rows = [*column["cycle"], column["missing"]]
            length = np.array(float(len(rows) - 1))
            day = self.node("Floor", name)
            turns = self.node("Floor", self.node("Div", day, length))
            day = self.node("Sub", day, self.node("Mul", turns, length))
            # infinity has no day: it is NaN less NaN
            absent = self.node("Or", self._absent(column, name), self.node("IsNaN", day))
            place = self.node("Where", absent, length, day)
            self.parts.append(self._gathered(rows, self.node("Cast", place, to=self._types.INT64)))
        else:
            self._numbers(column)
        return self._described(name, kind)

    def matrix(self, card: dict[str, Any]) -> list[Any]:
        """Add what all columns of a matrix add; a NaN counts as 0, as ``missing="zero"`` has it."""
        weights = np.array([column["slope"] for column in card["columns"]])
        rows = self.node("Where", self.node("IsNaN", MATRIX), 0.0, MATRIX)
        self.parts.append(self._weighed(rows, weights))
        return [self._described(MATRIX, self._types.DOUBLE, len(weights))]

    def _weighed(self, features: str, weights: Floats) -> tuple[str, str]:
        """Return what features add to the scores, and their squared length."""
        adds = self.node("MatMul", features, weights)
        return adds, self.node("ReduceSumSquare", features, axes=[1], keepdims=1)

    def _sums(self, pairs: list[Any]) -> tuple[list[float], float]:
        adds = np.zeros(self._outputs)
        for value, weights in pairs:
            adds += value * np.array(weights)
        return adds.tolist(), float(sum(value * value for value, _ in pairs))

    def _gathered(self, rows: list[Any], place: str) -> tuple[str, str]:
        adds, squares = zip(*map(self._sums, rows), strict=True)
        first = self.node("Gather", np.array(adds), place, axis=0)
        return first, self.node("Gather", np.array(squares)[:, None], place, axis=0)

    def _absent(self, column: dict[str, Any], cell: str) -> str:
        """Return whether a value is missing: NaN, a code, or out of the range of its reading."""
        odd = [self.node("Equal", cell, float(code)) for code in column["codes"]]
        for beyond, end in zip(("Less", "Greater"), column.get("range", ()), strict=False):
            odd.append(self.node(beyond, cell, float(end)))
        found = self.node("IsNaN", cell)
        for each in odd:
            found = self.node("Or", found, each)
        return found

    def _numbers(self, column: dict[str, Any]) -> None:
        cell = self.node("Unsqueeze", column["name"], np.array([1], dtype=np.int64))
        absent = self._absent(column, cell)
        if "views" in column:
            found = []
            for view in column["views"]:
                value = self._between(cell, view["low"], view["high"])
                if view["curve"] == "signed-log1p":
                    grown = self.node("Log", self.node("Add", self.node("Abs", value), 1.0))
                    value = self.node("Mul", self.node("Sign", value), grown)
                elif view["curve"] != "linear":
                    value = self.node("Log", self.node("Add", value, 1.0))
                value = self.node("Mul", self.node("Sub", value, view["zero"]), view["scale"])
                found.append(value if view["power"] == 1 else self.node("Mul", value, value))
            features = self.node("Concat", *found, axis=1)
        else:  # hats: how far a step was climbed, less how far the next one was
            knots = np.array(column["knots"])
            beyond = self.node("Sub", cell, knots[None, :-1])
            share = self._between(self.node("Div", beyond, np.diff(knots)[None, :]), 0.0, 1.0)
            none = self.node("Mul", cell, 0.0)
            # 0 times infinity is NaN: a number beyond all knots is cut before
            none = self.node("Where", self.node("IsNaN", none), 0.0, none)
            reached = self.node("Concat", self.node("Add", none, 1.0), share, axis=1)
            features = self.node("Sub", reached, self.node("Concat", share, none, axis=1))
        adds, square = self._weighed(features, np.array(column["weights"]))
        missing, length = self._sums(column["missing"])
        adds = self.node("Where", absent, np.array([missing]), adds)
        self.parts.append((adds, self.node("Where", absent, np.array([[length]]), square)))

    def _between(self, value: str, low: Any, high: Any) -> str:
        return self.node("Min", self.node("Max", value, low), high)

    def score(self, card: dict[str, Any]) -> str:
        """Return the sum of all parts, cut where the card says so, and the intercept."""
        total, square = self.parts[0]
        for adds, more in self.parts[1:]:
            total, square = self.node("Add", total, adds), self.node("Add", square, more)
        if card["cut"] is not None:
            length = self.node("Max", self.node("Sqrt", square), card["cut"])
            total = self.node("Mul", total, self.node("Div", card["cut"], length))
        return self.node("Add", total, np.array([card["intercept"]]))

    def outputs(self, score: str, card: dict[str, Any]) -> list[Any]:
        """Add what follows from the score, and return the descriptions of all outputs."""
        types = self._types
        if card["kind"] == "regressor":
            if card["link"] == "log":
                score = self.node("Exp", score)
            if card["bounds"] is not None:
                score = self._between(score, *card["bounds"])
            self.node("Squeeze", score, np.array([1], dtype=np.int64), name="prediction")
            return [self._described("prediction", types.DOUBLE)]
        both = score
        if len(card["intercept"]) == 1:
            both = self.node("Concat", self.node("Mul", score, 0.0), score, axis=1)
        self.node("Identity", score, name="score")
        first = self.node("ArgMax", both, axis=1, keepdims=0)  # of equal scores the first
        labels = np.array(card["classes"])
        known = {"U": types.STRING, "b": types.BOOL, "f": types.DOUBLE}
        kind = known.get(labels.dtype.kind, types.INT64)
        labels = labels.astype(object) if labels.dtype.kind == "U" else labels
        self.node("Gather", labels, first, name="label", axis=0)
        found = [
            self._described("label", kind),
            self._described("score", types.DOUBLE, len(card["intercept"])),
        ]
        if card["probabilities"]:
            self.node("Softmax", both, name="probabilities", axis=1)
            found.append(self._described("probabilities", types.DOUBLE, len(card["classes"])))
        return found
