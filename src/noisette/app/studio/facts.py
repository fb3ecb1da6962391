"""Step 2: from the cards of the page to a schema. Every fault is one sentence that names a card."""

import contextlib
import csv
import re
from collections.abc import Mapping
from typing import Any

from noisette._validate import refuse, visible
from noisette.app.studio.chosen import ChosenTable
from noisette.errors import InvalidParameter
from noisette.tables import Schema
from noisette.tables.kinds import KINDS

UNITS = {
    "row": "Each person has one row.",
    "person": "A person may have several rows; a column says whose they are.",
    "other": "One row is something else.",
}


WRITTEN = {
    "": "2020-12-31 or 31.12.2020",
    "%d/%m/%Y": "31/12/2020, day first",
    "%m/%d/%Y": "12/31/2020, month first",
    "%Y": "2020, a year alone",
    "%m/%Y": "12/2020, month and year",
}
"""How dates may be written: the form in a schema, and an example."""
_BOUND = re.compile(r"(target-)?(low|high)\b")


class FactFault(InvalidParameter):
    """What is missing or wrong on a card; `card` is its number, None for those at the top."""

    def __init__(self, sentence: str, card: int | None = None) -> None:
        super().__init__(sentence)
        self.card = card


def split_list(text: str) -> list[str]:
    """Return the entries of a list: one a line, or between commas or semicolons."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) == 1 and "," not in lines[0] and ";" in lines[0]:
        lines = [line.strip() for line in lines[0].split(";")]
    elif len(lines) == 1:
        lines = [cell.strip() for cell in next(csv.reader(lines, skipinitialspace=True))]
    return [line for line in lines if line]


def schema_from(form: Mapping[str, str], table: ChosenTable) -> Schema:
    """Return the schema that the cards state; what may be learnt stays open."""
    names = list(table.columns)
    if table.file.get("decimal") == ",":  # whoever writes so in the table writes so here
        form = {k: v.replace(",", ".") if _BOUND.match(k) else v for k, v in form.items()}
    target = _chosen(form.get("target", ""), names, "choose the column to predict.")
    node = _target(form, target) | _unit(form, names, target)
    more = {"file": table.file, "missing": split_list(form.get("missing", ""))}
    node |= {key: value for key, value in more.items() if value}
    node["columns"] = {
        name: {"kind": "ignore"} if name == node.get("person") else _column(form, k, name, typed)
        for k, (name, typed) in enumerate(table.columns.items())
        if name != target
    }
    try:
        return Schema.from_dict(node, learn=True)
    except InvalidParameter as error:
        found = [k for k, name in enumerate(names) if f"column {name!r}" in str(error)]
        raise FactFault(str(error), found[-1] if found else None) from None


def _chosen(text: str, names: list[str], sentence: str) -> str:
    if not text.isdecimal() or int(text) >= len(names):
        raise FactFault(sentence)
    return names[int(text)]


def _target(form: Mapping[str, str], target: str) -> dict[str, Any]:
    if form.get("answer") == "number":
        limits: dict[str, Any] = {"name": target, "kind": "numeric"}
        if form.get("target-known") == "know":
            limits |= {end: _number(form.get(f"target-{end}", ""), f"the {end}est value of what is "
                                    "to be predicted") for end in ("low", "high")}  # fmt: skip
        return {"target": limits}
    classes = split_list(form.get("classes", ""))
    if len(classes) < 2:
        raise FactFault(
            "list every answer that can occur in the column to predict, with commas between them; "
            "at least two."
        )
    return {"target": target, "classes": classes}


def _unit(form: Mapping[str, str], names: list[str], target: str) -> dict[str, Any]:
    unit = form.get("unit", "")
    if unit == "row":
        return {"unit": "one row is one person"}
    if unit == "other":
        words = " ".join(form.get("unit-words", "").split())
        refuse((not words, "say in a few words what one row stands for."), kind=FactFault)
        return {"unit": words[:300]}
    unsaid = "say what one row stands for, because that is what will be protected."
    refuse((unit != "person", unsaid), kind=FactFault)
    column = _chosen(form.get("person", ""), names, "choose the column that says whose a row is.")
    most = form.get("max-rows", "").strip()
    refuse(
        (column == target, "the column to predict cannot also say whose a row is."),
        (
            most and not (most.isdecimal() and 1 <= int(most) <= 10**6),
            "the most rows of one person must be a whole number from 1 on.",
        ),
        kind=FactFault,
    )
    return {"person": column} | ({"max_rows": int(most)} if most else {})


def _column(form: Mapping[str, str], k: int, name: str, typed: Mapping[str, Any]) -> dict[str, Any]:
    kind = form.get(f"kind-{k}", "")
    shown = visible(name)
    if kind not in KINDS:
        raise FactFault(f"say what kind of column “{shown}” is.", k)
    facts: dict[str, Any] = {"kind": kind}
    asks, known = KINDS[kind].asks, form.get(f"known-{k}") == "know"
    if "categories" in asks and known:
        facts["categories"] = split_list(form.get(f"levels-{k}", ""))
        if not facts["categories"]:
            raise FactFault(f"list the categories of “{shown}”, or have them learnt.", k)
    elif "categories" in asks and typed.get("categories") == [False, True]:
        facts["categories"] = typed["categories"]  # the two truth values are a fact of the type
    for end in ("low", "high") if "low" in asks and known else ():
        text = form.get(f"{end}-{k}", "").strip()
        what = f"the {end}est value of “{shown}”"
        facts[end] = text if "format" in asks else _number(text, what, k)
    if "format" in asks and (written := form.get(f"format-{k}", "").strip()):
        facts["format"] = written
    return facts


def _number(text: str, what: str, card: int | None = None) -> int | float:
    """Return a number as it would stand in a schema."""
    text = text.strip().replace(" ", "").replace("\u2212", "-")
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    raise FactFault(f"{what} must be a number, such as 0 or 12.5.", card)
