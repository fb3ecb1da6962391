"""Categories: an indicator for each public level, and one for "anything else"."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain, filterfalse, repeat
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

from noisette._typing import Bools, Floats
from noisette._validate import refuse
from noisette.errors import InvalidParameter
from noisette.tables.kinds.base import Cells, Column, Points, falling, some
from noisette.tables.kinds.codes import CodeGroups, check_codes, is_pattern
from noisette.tables.kinds.facts import UNKNOWN, canonical, flag, is_open, only, text_list, weight
from noisette.tables.kinds.kind import Kind, Open, Stated

Groups = tuple[tuple[str, tuple[str, ...]], ...]
_MOST_LEVELS = 12  # in a pair, the commonest


# Not kept in the column: that some cell was no listed level is a fact about the rows.
_codes = lru_cache(maxsize=64)(CodeGroups)


@dataclass(frozen=True)
class Categorical(Column):
    """Named groups of levels, the slot "other", and perhaps a slot for missing cells.

    Without `other`, an unlisted level is the zero vector, as the reference is. `patterns` are
    pairs of a range or prefix of codes and its group, for cells that are no listed level.
    """

    groups: Groups
    reference: str | None = None
    other: bool = True
    weight: float = 1.0
    patterns: tuple[tuple[str, str], ...] = ()

    states: ClassVar[tuple[str, ...]] = ("missing", "other")

    @classmethod
    def of(
        cls, name: str, levels: Sequence[str], reference: str | None = None, **facts: Any
    ) -> "Categorical":
        """Return a column in which every level is its own group."""
        return cls(name, tuple((level, (level,)) for level in levels), reference, **facts)

    @cached_property
    def _named(self) -> tuple[str, ...]:
        """The groups that have a slot."""
        return tuple(group for group, _ in self.groups if group != self.reference)

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """The groups, and all other cells; a name in brackets cannot be mistaken for a level."""
        return (*self._named, *["(other)"] * self.other, *["(missing)"] * self.missing_slot)

    @cached_property
    def features(self) -> tuple[str, ...]:
        """One feature for each slot."""
        count = len(self._named)
        heads = [f"{self.name}="] * count + [f"{self.name} "] * (len(self.slots) - count)
        return tuple(map(str.__add__, heads, self.slots))

    @property
    def mean_square(self) -> float:
        """The squared weight, or half of it if a reference level saves a part of the rows."""
        return self.weight**2 * (1.0 if self.reference is None else 0.5)

    @cached_property
    def _known(self) -> tuple[dict[str, int], int, dict[str | None, int]]:
        """The slot of every known text, that of any other, and that of every group."""
        nowhere = len(self.slots)
        slot: dict[str | None, int] = dict(zip(self._named, range(nowhere), strict=False))
        slot[self.reference] = nowhere
        unlisted = len(self._named) if self.other else nowhere
        absent = nowhere - 1 if self.missing_slot else unlisted
        known = {"": absent} | dict.fromkeys(self.missing, absent)
        for group, levels in self.groups:
            known.update(dict.fromkeys(levels, slot[group]))
        return known, unlisted, slot

    def _place(self, text: str) -> int:
        """Return the slot of a cell, from its own text and public facts alone."""
        known, unlisted, slot = self._known
        text = text if text in known else canonical(text)  # as levels are
        if text in known or not self.patterns:
            return known.get(text, unlisted)
        group = _codes(self.patterns).find(text)
        return unlisted if group is None else slot[group]

    @property
    def whole(self) -> bool:
        """Whether every cell has a slot: a reference level has none."""
        return self.reference is None

    @property
    def gone(self) -> int:
        """The slots for cells that are missing or hold no level."""
        return self.missing_slot + bool(self.groups and self.other)

    def unlisted(self, cells: Cells) -> Bools:
        """Whether each cell is there and no listed level."""
        slots = replace(self, other=True, missing_slot=True)  # the last two of its features
        features, values = slots.entries(cells)
        return np.asarray((features == len(slots.features) - 2) & (values != 0.0))[:, 0]

    def typical(self, most: float = np.inf) -> Floats:
        """Return shares of which each is rarer than the one before; the reference is commonest."""
        count = len(self._named)
        parts = falling(len(self.groups))[-count:] if count else []
        return np.concatenate([parts, np.zeros(self.places - count)])

    def level_sums(self, counts: Mapping[str, float], size: float) -> Floats:
        """Return the sums of levels that were released, of all others and of missing cells."""
        named = list(map(counts.get, self._named, repeat(0.0)))
        missing = counts.get("", 0.0)
        rest = max(size - math.fsum(named) - missing, 0.0)
        return np.array([*named, *[rest] * self.other, *[missing] * self.missing_slot])

    @property
    def size(self) -> int:
        """How many levels it has."""
        return len(self.groups)

    @property
    def points(self) -> Points:
        """Its slots, and the reference."""
        form, names, rows = super().points
        more = () if self.reference is None else (self.reference,)
        return Points(form, (*names, *more), np.pad(rows, [(0, len(more)), (0, 0)]))

    def describe(self) -> str:
        """Return its levels and codes, and what becomes of all others."""
        codes = some([f"{code} ({group})" for code, group in self.patterns])
        told = (
            some(named(self.groups)) + (f"; codes {codes}" if codes else ""),
            "" if self.reference is None else f"reference {self.reference}",
            "anything else: other" if self.other else "anything else: reference",
            "a slot for missing" if self.missing_slot else "",
        )
        return "; ".join(filter(None, told))

    def unread(self, *, learnt: bool) -> str:
        """Say that nearly no cell held a level, where these were listed."""
        return super().unread(learnt=True) if learnt else "held one of the listed levels"

    def card(self, weights: Floats) -> dict[str, Any]:
        """Return what each text adds."""
        if self.patterns:
            raise InvalidParameter(
                f"column {self.name!r} has ranges or prefixes of codes, which have no place on a "
                "scoring card; list its levels."
            )
        rows = [[[self.weight, row]] for row in weights.tolist()]
        known, unlisted, _ = self._known
        levels = {text: rows[k] if k < len(rows) else [] for text, k in known.items()}
        return {"levels": levels, "other": rows[unlisted] if self.other else []}

    def coarse(self, cells: int, counts: Mapping[str, float]) -> tuple[int, ...]:
        """Return its commonest levels by released counts, or the first ones."""
        order = sorted(range(len(self._named)), key=lambda k: -counts.get(self._named[k], 0.0))
        return tuple(sorted(order[:_MOST_LEVELS]))

    def merge(self, kept: Sequence[int]) -> Floats:
        """Return the matrix that picks levels; one that is not kept has no cell."""
        out = np.zeros((len(self.features), len(kept)))
        out[list(kept), np.arange(len(kept))] = 1.0 / self.weight
        return out


def named(groups: Groups) -> list[str]:
    """Return groups for people, with their values where these are others than the name."""
    return [
        name if values == (name,) else f"{name} ({', '.join(values)})" for name, values in groups
    ]


# --- what a schema states --------------------------------------------------------------------

_LEARN = ", or learn it privately with --learn"
_NUMBER = (
    '; a number to predict has no classes: write target = { name = "COLUMN", kind = "numeric", '
    'low = "?", high = "?" } instead of target and classes'
)


def _grouped(node: Any, what: str, hint: str = "") -> Groups:
    """Return named groups of values: of a list, each value is a group of its own."""
    if not isinstance(node, dict):
        return _alone(text_list(node, what, hint=hint))
    groups, seen = [], Counter[str]()
    for name, values in node.items():
        groups.append((name, tuple(map(canonical, text_list(values, f"{what}, {name!r},")))))
        seen.update(groups[-1][1])
    twice = max(seen, key=seen.__getitem__, default="")
    refuse(
        (not node, f"{what} must not be empty."),
        (seen[twice] > 1, f"{what} lists the value {twice!r} in two groups."),
    )
    return tuple(groups)


def _alone(texts: Iterable[str]) -> Groups:
    """Return levels each of which is a group of its own."""
    levels = tuple(map(canonical, texts))
    return tuple(zip(levels, zip(levels, strict=True), strict=True))


def labels_of(node: Any) -> Groups:
    """Return the classes with the spellings of their labels."""
    if node is None:
        raise InvalidParameter(
            'the classes are missing; write classes = ["no", "yes"] with every label that can '
            f"occur, whether it does or not{_NUMBER}."
        )
    labels = _grouped(node, "classes", _NUMBER)
    if len(labels) < 2:
        raise InvalidParameter("classes must name at least two labels.")
    return labels


def _levels(stated: Stated) -> tuple[Groups, tuple[tuple[str, str], ...]]:
    """Return groups of levels, and patterns of entries such as "390-459" = "circulatory"."""
    node, where = stated.facts.get("categories", stated.facts.get("groups")), stated.where
    if stated.learnt and isinstance(node, list):  # what was released may be empty, or a lone "?"
        return _alone(node), ()
    if not isinstance(node, dict) or not node or set(map(type, node.values())) != {str}:
        return _grouped(node, f"{where}: categories", _LEARN), ()
    levels: dict[str, list[str]] = {}
    patterns: dict[str, str] = {}
    check_codes([code.strip() for code in node], where)
    for code, group in node.items():
        listed = levels.setdefault(canonical(group), [])
        if is_pattern(code.strip()):
            patterns[code.strip()] = canonical(group)
        else:
            listed.append(canonical(code))
    if len(set(chain.from_iterable(levels.values()))) + len(patterns) != len(node):
        raise InvalidParameter(f"{where}: groups lists a code twice.")
    groups = zip(levels, map(tuple, levels.values()), strict=True)
    return tuple(groups), tuple(patterns.items())


def _parse(stated: Stated) -> Categorical | Open:
    """Return a column of categories; with `learn` they may be left open.

    The categories of a `learnt` column were released, so they need not be what a person writes.
    """
    facts, where, absent = stated.facts, stated.where, stated.texts
    size = weight(facts, "weight", where)
    if stated.learn and "groups" not in facts and is_open(facts.get("categories", UNKNOWN)):
        allowed = ("kind", "categories", "weight", "missing", "missing_slot")
        only(facts, allowed, f"{where}, of which the categories are to be learnt,")
        return Open(stated.name, missing=absent, missing_slot=stated.slot)
    if ("categories" in facts) == ("groups" in facts):
        raise InvalidParameter(
            f"{where}: write categories = [...], the public list of levels"
            + (", or groups, not both." if "groups" in facts else f"{_LEARN}.")
        )
    groups, patterns = _levels(stated)
    reference = facts.get("reference")
    reference = None if reference is None else canonical(reference)
    # Without any category "other" would be 1 in every row that is not missing.
    other = flag(facts, "other", True, where) and bool(groups)
    listed = set(chain.from_iterable(map(itemgetter(1), groups)))
    column = Categorical(
        stated.name, groups, reference, other, size, patterns,
        missing=tuple(filterfalse(listed.__contains__, absent)), missing_slot=stated.slot,
    )  # fmt: skip
    refuse(
        (reference is not None and reference not in dict(groups),
         f"{where}: reference {reference!r} is not among the categories."),
        (not other and reference is None and groups,
         f"{where}: other = false makes an unlisted level count as the reference; name one."),
        (not column.features, f"{where}: a single category without other says nothing."),
    )  # fmt: skip
    return column


def _merge(
    column: Any, kept: dict[str, Any], new: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return stated and bought facts together."""
    full = dict(kept)
    if "categories" in new:
        full["categories"] = list(map(str, new["categories"]))
    if new.get("reference") is not None:
        full["reference"] = str(new["reference"])
    return full, {} if full.get("categories") or full.get("groups") else {"categories": []}


def _of_type(type_: Any) -> dict[str, Any] | None:
    """Return levels of a type: the two truth values are a fact of it."""
    from noisette.tables.cells import arrow, is_text

    levels = {"categories": [False, True]} if arrow().types.is_boolean(type_) else None
    return {"categories": [UNKNOWN]} if is_text(type_) else levels


CATEGORICAL = Kind(
    "categorical",
    "one of a few categories",
    "Wards, occupations, yes and no: a short list of words or codes, also if they are written as "
    "numbers.",
    ('categories = ["a", "b", "c"]', "anything else falls into one slot"),
    _parse,
    ("categories", "groups", "reference", "other", "weight"),
    asks=("categories",),
    learns=("categories", "reference"),
    gone=("categories", "reference"),
    merge=_merge,
    of_type=_of_type,
)
