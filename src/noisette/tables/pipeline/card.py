"""`card_of`: a fitted linear model as a scoring card, which a few lines of Python evaluate.

The card is plain JSON: an intercept, and for each column how a cell becomes pairs of a value and
its weights. A number is a point between two knots, goes through views (a curve, moved and scaled),
or stands as it is; a category is a level, or a slot by a public hash. The score is the intercept
and all values times weights, after the row was cut to the length ``cut``, where there is one.
Everything on the card was released. ``docs/additive.md`` has the lines that evaluate it.

`onnx_of` makes an ONNX graph (extra ``onnx``) of the card, so both say the same. A model of raw
tables has one input for each column, each of shape (rows,): numbers as doubles (NaN is missing;
dates as days since 1970, for ONNX has no dates), categories as texts ("" is missing), hashed
columns as the number of their slot (int64), for ONNX has no such hash. A model of matrices has one
input X of doubles.
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
    facts = getattr(model, "schema_", schema)
    weights = np.atleast_2d(np.asarray(model.coef_)).T
    scale = 1.0
    if facts is None:
        columns = _features(model, weights)
    else:
        scale = 1.0 if hasattr(model, "schema_") else facts.row_norm
        weights = weights / scale
        columns = [{"name": column.name, **column.card(weights[part])}
                   for column, part in slices(facts.columns)]  # fmt: skip
    node: dict[str, Any] = {
        "noisette_card": CARD,
        "target": None if facts is None else facts.target,
        "kind": "classifier" if hasattr(model, "classes_") else "regressor",
        "intercept": np.atleast_1d(np.asarray(model.intercept_)).tolist(),
        "cut": _cut(model, facts, scale),
        "columns": columns,
        "guarantee": model.privacy_.statement(),
    }
    if node["kind"] == "regressor":
        counts = isinstance(model, PoissonRegressor)
        limits = getattr(model, "target_bounds_", None) if hasattr(model, "schema_") else None
        limits = model.target_bounds if counts else limits
        link = "log" if counts else "identity"
        return node | {"link": link, "bounds": None if limits is None else list(map(float, limits))}
    probabilities = hasattr(model, "predict_proba")
    return node | {"classes": model.classes_.tolist(), "probabilities": probabilities}


def _cut(model: Any, schema: Schema | None, scale: float) -> float | None:
    """Return the length to which rows are cut before they are scored, None for none."""
    if hasattr(model, "schema_"):
        return None
    lengths = [] if schema is None else [scale]
    if not hasattr(model, "classes_") and model.norm_bound is not None:
        lengths.append(float(model.norm_bound) * scale)  # regressors predict of cut rows
    return min(lengths, default=None)


def _features(model: Any, weights: Floats) -> list[dict[str, Any]]:
    """Return the columns of a matrix: each number counts as it is."""
    names = [str(each) for each in getattr(model, "feature_names_in_", ())]
    names = names or [f"feature {k}" for k in range(len(weights))]
    return [
        {"name": name, "slope": row.tolist(), "missing": [], "codes": []}
        for name, row in zip(names, weights, strict=True)
    ]


def onnx_of(model: Any, schema: Schema | None = None) -> Any:
    """Return the ONNX model (`onnx.ModelProto`) of a fitted model; `schema` as in `card_of`."""
    try:
        import onnx
        from onnx import helper
    except ImportError:
        raise MissingExtra("an ONNX graph needs onnx: pip install 'noisette[onnx]'.") from None
    card = card_of(model, schema)
    graph = _Graph(helper, len(card["intercept"]))
    plain = all("slope" in column for column in card["columns"])
    inputs = graph.matrix(card) if plain else [graph.column(each) for each in card["columns"]]
    outputs = graph.outputs(graph.score(card), card)
    described = [
        helper.make_tensor_value_info(name, kind, ["rows", *shape]) for name, kind, shape in outputs
    ]
    made = helper.make_graph(graph.nodes, "noisette", inputs, described, graph.constants)
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("ai.onnx.ml", _TABLES)]
    proto = helper.make_model(made, opset_imports=opsets, producer_name="noisette")
    proto.ir_version = 8
    proto.doc_string = card["guarantee"]
    onnx.checker.check_model(proto)
    return proto


class _Graph:
    """Nodes and constants as they are made; `parts` are what columns add, with their squares."""

    def __init__(self, helper: Any, outputs: int) -> None:
        self._helper, self._outputs = helper, outputs
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.parts: list[tuple[str, str]] = []

    def constant(self, value: Any) -> str:
        from onnx import numpy_helper

        name = f"k{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, kind: str, inputs: list[str], name: str = "", **attributes: Any) -> str:
        name = name or f"n{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(kind, inputs, [name], **attributes))
        return name

    def column(self, column: dict[str, Any]) -> Any:
        """Add what a column adds; return the description of its input."""
        from onnx import TensorProto

        kind = TensorProto.DOUBLE
        if "slots" in column:
            kind = TensorProto.INT64
            rows = [*column["slots"], column["levels"][""]]  # the last one is for missing cells
            self.parts.append(self._gathered(rows, column["name"]))
        elif "levels" in column:
            kind = TensorProto.STRING
            self._levels(column)
        elif "cycle" in column:
            self._cycle(column)
        else:
            self._numbers(column)
        return self._helper.make_tensor_value_info(column["name"], kind, ["rows"])

    def matrix(self, card: dict[str, Any]) -> list[Any]:
        """Add what all columns of a matrix add; a NaN counts as 0, as ``missing="zero"`` has it."""
        from onnx import TensorProto

        weights = np.array([column["slope"] for column in card["columns"]])
        nothing = self.constant(np.array(0.0))
        rows = self.node("Where", [self.node("IsNaN", [MATRIX]), nothing, MATRIX])
        self.parts.append(self._weighed(rows, weights))
        shape = ["rows", len(weights)]
        return [self._helper.make_tensor_value_info(MATRIX, TensorProto.DOUBLE, shape)]

    def _weighed(self, features: str, weights: Floats) -> tuple[str, str]:
        """Return what features add to the scores, and their squared length."""
        adds = self.node("MatMul", [features, self.constant(weights)])
        return adds, self.node("ReduceSumSquare", [features], axes=[1], keepdims=1)

    def _sums(self, pairs: list[Any]) -> tuple[list[float], float]:
        adds = np.zeros(self._outputs)
        for value, weights in pairs:
            adds += value * np.array(weights)
        return adds.tolist(), float(sum(value * value for value, _ in pairs))

    def _gathered(self, rows: list[Any], place: str) -> tuple[str, str]:
        adds, squares = zip(*(self._sums(pairs) for pairs in rows), strict=True)
        tables = np.array(adds), np.array(squares)[:, None]
        first, second = (
            self.node("Gather", [self.constant(each), place], axis=0) for each in tables
        )
        return first, second

    def _numbers(self, column: dict[str, Any]) -> None:
        axis = self.constant(np.array([1], dtype=np.int64))
        cell = self.node("Unsqueeze", [column["name"], axis])
        absent = self.node("IsNaN", [cell])
        for code in column["codes"]:
            same = self.node("Equal", [cell, self.constant(np.array(float(code)))])
            absent = self.node("Or", [absent, same])
        features = self._views(cell, column) if "views" in column else self._hats(cell, column)
        adds, square = self._weighed(features, np.array(column["weights"]))
        missing, length = self._sums(column["missing"])
        adds = self.node("Where", [absent, self.constant(np.array([missing])), adds])
        square = self.node("Where", [absent, self.constant(np.array([[length]])), square])
        self.parts.append((adds, square))

    def _between(self, value: str, low: Any, high: Any) -> str:
        value = self.node("Max", [value, self.constant(np.array(low))])
        return self.node("Min", [value, self.constant(np.array(high))])

    def _hats(self, cell: str, column: dict[str, Any]) -> str:
        """Return the hats: how far a step was climbed, less how far the next one was."""
        knots = np.array(column["knots"])
        beyond = self.node("Sub", [cell, self.constant(knots[None, :-1])])
        share = self.node("Div", [beyond, self.constant(np.diff(knots)[None, :])])
        share = self._between(share, 0.0, 1.0)
        none = self.node("Mul", [cell, self.constant(np.array(0.0))])
        # 0 times infinity is NaN: a number beyond all knots is cut before
        none = self.node("Where", [self.node("IsNaN", [none]), self.constant(np.array(0.0)), none])
        one = self.node("Add", [none, self.constant(np.array(1.0))])
        reached = self.node("Concat", [one, share], axis=1)
        passed = self.node("Concat", [share, none], axis=1)
        return self.node("Sub", [reached, passed])

    def _views(self, cell: str, column: dict[str, Any]) -> str:
        found = []
        for view in column["views"]:
            value = self._between(cell, view["low"], view["high"])
            if view["curve"] != "linear":
                size = self.node("Abs", [value]) if view["curve"] == "signed-log1p" else value
                grown = self.node("Add", [size, self.constant(np.array(1.0))])
                sign = self.node("Sign", [value])
                value = self.node("Log", [grown])
                if view["curve"] == "signed-log1p":
                    value = self.node("Mul", [sign, value])
            value = self.node("Sub", [value, self.constant(np.array(view["zero"]))])
            value = self.node("Mul", [value, self.constant(np.array(view["scale"]))])
            found.append(value if view["power"] == 1 else self.node("Mul", [value, value]))
        return self.node("Concat", found, axis=1)

    def _cycle(self, column: dict[str, Any]) -> None:
        """Add what a day of the cycle adds; the last row of the table is for missing cells."""
        rows, cell = [*column["cycle"], column["missing"]], column["name"]
        length = self.constant(np.array(float(len(rows) - 1)))
        turns = self.node("Floor", [self.node("Div", [self.node("Floor", [cell]), length])])
        day = self.node("Sub", [self.node("Floor", [cell]), self.node("Mul", [turns, length])])
        # infinity has no day: it is NaN less NaN
        place = self.node("Where", [self.node("IsNaN", [day]), length, day])
        self.parts.append(self._gathered(rows, self.node("Cast", [place], to=7)))

    def _levels(self, column: dict[str, Any]) -> None:
        """Add what a level adds: its row in a table, the last row for any other text."""
        table: list[Any] = []
        places: dict[str, int] = {}
        for text, pairs in column["levels"].items():
            for spelling in _spellings(text):
                places.setdefault(spelling, len(table))
            table.append(pairs)
        place = self.node(
            "LabelEncoder", [column["name"]], domain="ai.onnx.ml", keys_strings=list(places),
            values_int64s=list(places.values()), default_int64=len(table),
        )  # fmt: skip
        self.parts.append(self._gathered([*table, column["other"]], place))

    def score(self, card: dict[str, Any]) -> str:
        """Return the sum of all parts, cut where the card says so, and the intercept."""
        total, square = self.parts[0]
        for adds, more in self.parts[1:]:
            total = self.node("Add", [total, adds])
            square = self.node("Add", [square, more])
        if card["cut"] is not None:
            length = self.node("Sqrt", [square])
            length = self.node("Max", [length, self.constant(np.array(card["cut"]))])
            share = self.node("Div", [self.constant(np.array(card["cut"])), length])
            total = self.node("Mul", [total, share])
        return self.node("Add", [total, self.constant(np.array([card["intercept"]]))])

    def outputs(self, score: str, card: dict[str, Any]) -> list[tuple[str, Any, list[int]]]:
        """Add what follows from the score, and return (name, type, shape) of all outputs."""
        from onnx import TensorProto

        if card["kind"] == "regressor":
            one = self.constant(np.array([1], dtype=np.int64))
            if card["link"] == "log":
                score = self.node("Exp", [score])
            if card["bounds"] is not None:
                score = self._between(score, *card["bounds"])
            self.node("Squeeze", [score, one], "prediction")
            return [("prediction", TensorProto.DOUBLE, [])]
        both = score
        if len(card["intercept"]) == 1:
            nothing = self.node("Mul", [score, self.constant(np.array(0.0))])
            both = self.node("Concat", [nothing, score], axis=1)
        self.node("Identity", [score], "score")
        first = self.node("ArgMax", [both], axis=1, keepdims=0)  # of equal scores the first
        labels = np.array(card["classes"])
        kind = {"U": TensorProto.STRING, "b": TensorProto.BOOL, "f": TensorProto.DOUBLE}
        labels = labels.astype(object) if labels.dtype.kind == "U" else labels
        self.node("Gather", [self.constant(labels), first], "label", axis=0)
        found: list[tuple[str, Any, list[int]]] = [
            ("label", kind.get(np.array(card["classes"]).dtype.kind, TensorProto.INT64), [])
        ]
        found.append(("score", TensorProto.DOUBLE, [len(card["intercept"])]))
        if card["probabilities"]:
            self.node("Softmax", [both], "probabilities", axis=1)
            found.append(("probabilities", TensorProto.DOUBLE, [len(card["classes"])]))
        return found


def _spellings(text: str) -> list[str]:
    """Return the texts by which a level is most often written: ONNX has no rule for numbers."""
    if text in ("true", "false"):
        return [text, text.capitalize(), text.upper()]
    return [text, f"{text}.0"] if re.fullmatch(r"[+-]?\d+", text) else [text]
