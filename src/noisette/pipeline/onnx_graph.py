"""`onnx_of`: a model of raw tables as an ONNX graph that takes raw cells (extra ``onnx``).

One input for each column: numbers as doubles (NaN is missing; dates as days since 1970, for ONNX
has no dates), categories as texts ("" is missing), each of shape (rows,). The graph is made of the
scoring card, so both say the same. All numbers are doubles.
"""

import re
from typing import Any

import numpy as np

from noisette.errors import MissingExtra
from noisette.pipeline.card import card_of

__all__ = ["onnx_of"]

_OPSET, _TABLES = 17, 3  # of ONNX, and of its part for tables


def onnx_of(model: Any) -> Any:
    """Return the ONNX model (`onnx.ModelProto`) of a fitted model of raw tables."""
    try:
        import onnx
        from onnx import TensorProto, helper
    except ImportError:
        raise MissingExtra("an ONNX graph needs onnx: pip install 'noisette[onnx]'.") from None
    card = card_of(model)
    graph = _Graph(helper)
    inputs, parts = [], []
    for number, column in enumerate(card["columns"]):
        kind = TensorProto.STRING if "levels" in column else TensorProto.DOUBLE
        inputs.append(helper.make_tensor_value_info(column["name"], kind, ["rows"]))
        make = graph.levels if "levels" in column else graph.numbers
        parts.append(make(f"c{number}", column))
    score = graph.constant("intercept", np.array([card["intercept"]]))
    for part in parts:
        score = graph.node("Add", [score, part])
    outputs = graph.outputs(score, card)
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
    """Nodes and constants as they are made."""

    def __init__(self, helper: Any) -> None:
        self._helper = helper
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: Any) -> str:
        from onnx import numpy_helper

        name = f"{name}_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, kind: str, inputs: list[str], name: str = "", **attributes: Any) -> str:
        name = name or f"n{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(kind, inputs, [name], **attributes))
        return name

    def numbers(self, name: str, column: dict[str, Any]) -> str:
        """Add what a number adds: the first weight, and each step as far as it was climbed."""
        knots, weights = np.array(column["knots"]), np.array(column["weights"])
        axis = self.constant("axis", np.array([1], dtype=np.int64))
        cell = self.node("Unsqueeze", [column["name"], axis])
        absent = self.node("IsNaN", [cell])
        for code in column["codes"]:
            same = self.node("Equal", [cell, self.constant(name, np.array(float(code)))])
            absent = self.node("Or", [absent, same])
        beyond = self.node("Sub", [cell, self.constant(name, knots[None, :-1])])
        share = self.node("Div", [beyond, self.constant(name, np.diff(knots)[None, :])])
        share = self.node("Max", [share, self.constant(name, np.array(0.0))])
        share = self.node("Min", [share, self.constant(name, np.array(1.0))])
        climbed = self.node("MatMul", [share, self.constant(name, np.diff(weights, axis=0))])
        value = self.node("Add", [climbed, self.constant(name, weights[:1])])
        missing = self.constant(name, np.array([column["missing"]]))
        return self.node("Where", [absent, missing, value])

    def levels(self, name: str, column: dict[str, Any]) -> str:
        """Add what a level adds: its row in a table, the last row for any other text."""
        table: list[list[float]] = []
        places: dict[str, int] = {}
        for text, weights in column["levels"].items():
            for spelling in _spellings(text):
                places.setdefault(spelling, len(table))
            table.append(weights)
        place = self.node(
            "LabelEncoder", [column["name"]], domain="ai.onnx.ml", keys_strings=list(places),
            values_int64s=list(places.values()), default_int64=len(table),
        )  # fmt: skip
        rows = self.constant(name, np.array([*table, column["other"]]))
        return self.node("Gather", [rows, place], axis=0)

    def outputs(self, score: str, card: dict[str, Any]) -> list[tuple[str, Any, list[int]]]:
        """Add what follows from the score, and return (name, type, shape) of all outputs."""
        from onnx import TensorProto

        if card["kind"] == "regressor":
            one = self.constant("axis", np.array([1], dtype=np.int64))
            low, high = card["bounds"]
            cut = self.node("Max", [score, self.constant("low", np.array(low))])
            cut = self.node("Min", [cut, self.constant("high", np.array(high))])
            self.node("Squeeze", [cut, one], "prediction")
            return [("prediction", TensorProto.DOUBLE, [])]
        both = score
        if len(card["intercept"]) == 1:
            nothing = self.node("Mul", [score, self.constant("zero", np.array(0.0))])
            both = self.node("Concat", [nothing, score], axis=1)
        self.node("Identity", [score], "score")
        first = self.node("ArgMax", [both], axis=1, keepdims=0)  # of equal scores the first
        labels = np.array(card["classes"])
        kind = {"U": TensorProto.STRING, "b": TensorProto.BOOL, "f": TensorProto.DOUBLE}
        labels = labels.astype(object) if labels.dtype.kind == "U" else labels
        self.node("Gather", [self.constant("classes", labels), first], "label", axis=0)
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
