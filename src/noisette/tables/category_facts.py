"""From the dictionaries of a schema file to labels and columns of categories."""

from typing import Any

from noisette.errors import InvalidParameter
from noisette.tables.fact_checks import UNKNOWN, check_weight, flag, number, only, text_list
from noisette.tables.kinds import Categorical, Hashed, Open, canonical
from noisette.tables.kinds.codes import check_codes, is_pattern

Groups = tuple[tuple[str, tuple[str, ...]], ...]

_CATEGORICAL = (
    "kind", "categories", "groups", "reference", "other", "weight", "missing", "missing_slot",
)  # fmt: skip
_WHEN_OPEN = ("kind", "categories", "weight", "missing", "missing_slot")
_HASHED = ("kind", "buckets", "weight", "missing", "missing_slot")
_LEARN = ", or learn it privately with --learn"
_NUMBER = (
    '; a number to predict has no classes: write target = { name = "COLUMN", kind = "numeric", '
    'low = "?", high = "?" } instead of target and classes'
)
_MOST_BUCKETS = 1 << 20


def _grouped(node: Any, what: str, hint: str = "") -> Groups:
    """Return named groups of values: of a list, each value is a group of its own."""
    if isinstance(node, dict):
        groups = [(name, text_list(values, f"{what}, {name!r},")) for name, values in node.items()]
        if not groups:
            raise InvalidParameter(f"{what} must not be empty.")
    else:
        groups = [(canonical(text), (text,)) for text in text_list(node, what, hint=hint)]
    seen: set[str] = set()
    for _, texts in groups:
        for text in map(canonical, texts):
            if text in seen:
                raise InvalidParameter(f"{what} lists the value {text!r} in two groups.")
            seen.add(text)
    return tuple((name, tuple(map(canonical, texts))) for name, texts in groups)


def labels_of(node: Any) -> Groups:
    """Return the classes with the spellings of their labels."""
    if node is None:
        raise InvalidParameter(
            'the classes are missing; write classes = ["no", "yes"] with every label that can '
            f"occur, whether it does or not{_NUMBER}."
        )
    labels = _grouped(node, "classes", hint=_NUMBER)
    if len(labels) < 2:
        raise InvalidParameter("classes must name at least two labels.")
    return labels


def _of_codes(node: dict[str, str], where: str) -> tuple[Groups, tuple[tuple[str, str], ...]]:
    """Return groups and patterns of entries such as "390-459" = "circulatory"."""
    levels: dict[str, list[str]] = {}
    patterns: dict[str, str] = {}
    check_codes([code.strip() for code in node], where)
    for code, group in node.items():
        named = levels.setdefault(canonical(group), [])
        if is_pattern(code.strip()):
            patterns[code.strip()] = canonical(group)
        else:
            named.append(canonical(code))
    listed = [level for named in levels.values() for level in named]
    if len(set(listed)) + len(patterns) != len(node):
        raise InvalidParameter(f"{where}: groups lists a code twice.")
    groups = tuple((group, tuple(named)) for group, named in levels.items())
    return groups, tuple(patterns.items())


def _levels(
    facts: dict[str, Any], where: str, *, learnt: bool
) -> tuple[Groups, tuple[tuple[str, str], ...]]:
    node = facts.get("categories", facts.get("groups"))
    if isinstance(node, dict) and node and all(isinstance(each, str) for each in node.values()):
        return _of_codes(node, where)
    if learnt and isinstance(node, list):  # what was released may be empty, or a lone "?"
        return tuple((text, (text,)) for text in map(canonical, node)), ()
    return _grouped(node, f"{where}: categories", _LEARN), ()


def categorical_of(
    name: str, facts: dict[str, Any], codes: tuple[str, ...], *, learn: bool, learnt: bool
) -> Categorical | Open:
    """Return a column of categories; with `learn` they may be left open.

    The categories of a `learnt` column were released, so they need not be what a person writes.
    """
    where = f"column {name!r}"
    only(facts, _CATEGORICAL, where)
    slot = flag(facts, "missing_slot", False, where)
    absent = tuple(dict.fromkeys(map(canonical, codes)))
    weight = number(facts, "weight", where)
    check_weight("weight", weight, where)
    if learn and "groups" not in facts and _is_open(facts.get("categories", UNKNOWN)):
        only(facts, _WHEN_OPEN, f"{where}, of which the categories are to be learnt,")
        return Open(name, "categorical", missing=absent, missing_slot=slot)
    if ("categories" in facts) == ("groups" in facts):
        raise InvalidParameter(
            f"{where}: write categories = [...], the public list of levels"
            + (", or groups, not both." if "groups" in facts else f"{_LEARN}.")
        )
    groups, patterns = _levels(facts, where, learnt=learnt)
    reference = facts.get("reference")
    if reference is not None:
        reference = canonical(reference)
        if reference not in [group for group, _ in groups]:
            raise InvalidParameter(f"{where}: reference {reference!r} is not among the categories.")
    # Without any category "other" would be 1 in every row that is not missing.
    other = flag(facts, "other", True, where) and bool(groups)
    if not other and reference is None and groups:
        raise InvalidParameter(
            f"{where}: other = false makes an unlisted level count as the reference; name one."
        )
    listed = {level for _, levels in groups for level in levels}
    column = Categorical(
        name, groups, reference, other, 1.0 if weight is None else weight,
        tuple(code for code in absent if code not in listed), slot, patterns,
    )  # fmt: skip
    if not column.features:
        raise InvalidParameter(f"{where}: a single category without other says nothing.")
    return column


def _is_open(node: Any) -> bool:
    return bool(node in (UNKNOWN, [UNKNOWN]))


def hashed_of(name: str, facts: dict[str, Any], codes: tuple[str, ...]) -> Hashed:
    """Return a column of very many categories, put into buckets by a public hash."""
    where = f"column {name!r}"
    only(facts, _HASHED, where)
    buckets = facts.get("buckets", 256)
    if (
        isinstance(buckets, bool)
        or not isinstance(buckets, int)
        or not 2 <= buckets <= _MOST_BUCKETS
    ):
        raise InvalidParameter(
            f"{where}: buckets must be a whole number from 2 to {_MOST_BUCKETS}; got {buckets!r}."
        )
    weight = number(facts, "weight", where)
    check_weight("weight", weight, where)
    return Hashed(
        name, buckets, 1.0 if weight is None else weight,
        tuple(dict.fromkeys(map(canonical, codes))), flag(facts, "missing_slot", False, where),
    )  # fmt: skip
