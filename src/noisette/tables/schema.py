"""The schema: every public fact about a table, written down by a person, read from a TOML file.

    target = "ill"
    classes = ["no", "yes"]
    unit = "one row is one patient"

    [columns.age]
    kind = "numeric"
    low = 0
    high = 110

Whatever is missing here is an error that names the column. No fact is ever read off the rows.

With `learn`, bounds and categories may be left open ("?", or not written). Such a schema encodes
nothing; `Schema.completed` takes what a private step released and returns one that does.
"""

import hashlib
import json
import math
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, time
from itertools import chain, filterfalse
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar

from noisette import _files, _validate
from noisette._validate import refuse
from noisette.core.adjacency import UNITS, Protected
from noisette.errors import InvalidParameter
from noisette.tables.file_facts import FileFacts
from noisette.tables.kinds import KINDS, Column, column_of, is_sparse
from noisette.tables.kinds.categorical import labels_of
from noisette.tables.kinds.facts import UNKNOWN, only, text_list
from noisette.tables.person_facts import PERSON_KEYS, PersonFacts

__all__ = ["UNKNOWN", "FileFacts", "Schema", "read_schema"]

_TOP = (
    "target", "classes", "unit", "row_norm", "missing", "file", "learn", "learnt", "columns",
    *PERSON_KEYS,
)  # fmt: skip


@dataclass(frozen=True)
class Schema:
    """All public facts about a table, checked; made by `from_dict` or `read_schema`.

    Parameters
    ----------
    target : str
        The column to predict.
    labels : tuple of (str, tuple of str)
        Each class and the spellings that stand for it.
    columns : tuple of Column
        How each column is encoded.
    row_norm : float
        By what encoded rows are divided before they are cut to norm 1.
    unit : str
        What one row stands for, in words.
    file : FileFacts
        How the file is written.
    source : dict
        The checked TOML as dictionaries.
    share : float, optional
        The part of the budget for learning, if the file states it.
    learnt : tuple of str, default ()
        The columns whose facts were released by private steps.
    persons : PersonFacts, optional
        The column that identifies persons, where a person may have several rows.
    target_bounds : tuple of (float or None), optional
        The stated limits of a target that is a number, None where they are open; None for labels.

    Examples
    --------
    >>> from noisette.tables import Schema
    >>> facts = {"target": "ill", "classes": ["no", "yes"], "unit": "one row is one person"}
    >>> facts["columns"] = {"age": {"kind": "numeric", "low": 0, "high": 100}}
    >>> schema = Schema.from_dict(facts)
    >>> schema.features, schema.classes, len(schema.fingerprint)
    (('age',), ('no', 'yes'), 16)
    >>> schema.check_complete()
    >>> facts["columns"] = {"age": {"kind": "numeric"}}
    >>> unknown = Schema.from_dict(facts, learn=True)
    >>> unknown.completed({"age": {"low": 18, "high": 90}}).learnt
    ('age',)

    """

    target: str
    labels: tuple[tuple[str, tuple[str, ...]], ...]
    columns: tuple[Column, ...]
    row_norm: float
    unit: str
    file: FileFacts
    source: dict[str, Any]
    share: float | None = None
    learnt: tuple[str, ...] = ()
    persons: PersonFacts | None = None
    target_bounds: tuple[float | None, float | None] | None = None

    public_form: ClassVar[str] = (
        "that the file is a table of the schema's form with at least one row"
    )
    """What is treated as public of the file as a whole."""

    @property
    def protected(self) -> str:
        """Whose data are protected together, in words."""
        return self.unit if self.persons is None else self.persons.words

    @property
    def whose(self) -> Protected:
        """Whose data are protected together."""
        return UNITS["record" if self.persons is None else "person"]

    @property
    def identifiers(self) -> tuple[str, ...]:
        """The columns that tell persons apart: one, or none."""
        return () if self.persons is None else (self.persons.column,)

    @property
    def open(self) -> tuple[Column, ...]:
        """The columns with facts that are still to be learnt."""
        return tuple(filter(attrgetter("open"), self.columns))

    @property
    def by_name(self) -> dict[str, Column]:
        """The columns by their names."""
        return dict(zip(map(attrgetter("name"), self.columns), self.columns, strict=True))

    @property
    def used(self) -> tuple[str, ...]:
        """The names of the columns that are not ignored."""
        return tuple(map(attrgetter("name"), filter(attrgetter("used"), self.columns)))

    @property
    def numeric(self) -> tuple[str, ...]:
        """The names of the columns whose cells are numbers; dates are none."""
        return tuple(c.name for c in self.columns if c.reading.word and not c.reading.moments)

    def check_complete(self) -> None:
        """Refuse to encode while facts are open.

        Raises
        ------
        InvalidParameter
            If a column has facts that are still to be learnt.

        """
        for column in self.open:
            raise InvalidParameter(
                f"column {column.name!r} has facts that are still to be learnt; fill them in, or "
                "learn them first."
            )

    def completed(
        self, released: Mapping[str, Mapping[str, Any]], *, row_norm: float | None = None,
        free: Collection[str] = (),
    ) -> "Schema":  # fmt: skip
        """Return the schema with what private steps released about its columns.

        For a numeric or date column that is `low` and `high`, or `knots`, and `center`; for a
        categorical one `categories` and `reference`. A fact that a person wrote down is not
        replaced, except that `knots` take the place of bounds. A column about which nothing was
        released that tells rows apart is ignored from then on.

        Parameters
        ----------
        released : dict of dict
            The released facts of each column, by its name.
        row_norm : float, optional
            By what encoded rows are divided; as the schema has it unless given.
        free : collection of str, default ()
            Columns whose facts follow from public ones, so they do not count as learnt.

        Returns
        -------
        Schema
            A schema without open facts.

        Raises
        ------
        InvalidParameter
            If a column or fact is unknown or stated, or a fact stays open.

        """
        for name in {*released} - {*self.by_name}:
            raise InvalidParameter(f"column {name!r} is not in the schema.")
        facts, learnt = dict(self.source["columns"]), list[str]()
        for name, column in self.by_name.items():
            new = released.get(name)
            if column.open and not new:
                raise InvalidParameter(f"column {name!r} has open facts, and nothing was released.")
            if new:
                facts[name] = KINDS[facts[name]["kind"]].completed(column, facts[name], new)
            if name in self.learnt or (new and name not in free):
                learnt.append(name)
        node = self.source | {"columns": facts} | ({"learnt": learnt} if learnt else {})
        node.pop("learn", None)
        return Schema.from_dict(node if row_norm is None else node | {"row_norm": float(row_norm)})

    @property
    def sparse(self) -> bool:
        """Whether encoded rows are kept sparse: a matter of the schema, not of the rows."""
        return is_sparse(self.columns)

    @property
    def largest_norm(self) -> float:
        """The most that an encoded row can be long before it is divided by `row_norm`."""
        return math.sqrt(sum(column.most_square for column in self.columns))

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes."""
        return tuple(dict(self.labels))

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each column as the schema says it, by name: how a ledger knows a table."""
        said = self.source["columns"].items()
        return {name: str(facts.get("kind", "")) for name, facts in said}

    @property
    def features(self) -> tuple[str, ...]:
        """The names of all features, in the order of the schema."""
        return tuple(chain.from_iterable(map(attrgetter("features"), self.columns)))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of a file without a header: as named, or in order with the target last."""
        return self.file.names or (*self.by_name, self.target)

    @property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that change with any fact, but not with comments."""
        text = json.dumps(self.source, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def public(self) -> tuple[str, ...]:
        """What a guarantee should say is treated as public."""
        used, learnt = list(filter(attrgetter("features"), self.columns)), len(self.learnt)
        return (
            f"the schema {self.fingerprint} (names, bounds and categories of {len(used)} columns, "
            "the labels)"
            + (f", of which facts of {learnt} columns were released privately" if learnt else ""),
            f"the scale {self.row_norm:.6g} by which encoded rows were divided before they were "
            "cut to the norm bound",
            self.public_form,
        )

    @classmethod
    def from_dict(cls, node: Any, target: str | None = None, *, learn: bool = False) -> "Schema":
        """Check the content of a schema file.

        Parameters
        ----------
        node : dict
            What TOML makes of the file.
        target : str, optional
            The label's column as the command line asked for it.
        learn : bool, default False
            Whether bounds and categories may be left open.

        Returns
        -------
        Schema
            The checked facts.

        Raises
        ------
        InvalidParameter
            If a fact is missing, unknown or out of range; the text names the column.

        """
        if not isinstance(node, dict):
            raise InvalidParameter("a schema is a table with target, classes and columns.")
        only(node, _TOP, "the schema")
        node = _plain(node)
        name, bounds = _target_of(node, target)
        labels = labels_of(node.get("classes")) if bounds is None else ()
        learnt = text_list(node.get("learnt", []), "learnt", empty=True)
        codes = text_list(node.get("missing", []), "missing", empty=True)
        persons = PersonFacts.of(node, name, codes)
        stated = _columns_of(node, name, learnt)
        columns = tuple(
            column_of(each, facts, codes, learn=learn, learnt=each in learnt)
            for each, facts in stated.items()
        )
        node["columns"] = dict(stated)
        for column in filterfalse(attrgetter("used"), columns):
            node["columns"][column.name] = {"kind": "ignore"}
        unit = node.get("unit", UNKNOWN if persons is None else "one row is one of a person's rows")
        file, learning = FileFacts.from_dict(node.get("file", {})), node.get("learn", {})
        share = learning.get("share") if isinstance(learning, dict) else None
        lacking = ", ".join(map(repr, filterfalse(file.names.__contains__, (*stated, name))))
        refuse(
            (
                bounds is not None and "classes" in node,
                "classes are for labels; a target that is a number has none.",
            ),
            # Where facts were released, it may turn out that no column tells rows apart.
            (
                not learnt and not any(map(attrgetter("used"), columns)),
                "the schema has no column to learn from.",
            ),
            (
                unit == UNKNOWN,
                "unit is still to be filled in; write what one row stands for, such as unit = "
                '"one row is one person", because the guarantee protects one row; where a person '
                'may have several rows write person = "COLUMN", the column that identifies them.',
            ),
            (
                not isinstance(unit, str) or not unit.strip(),
                "unit must say in a few words what one row stands for.",
            ),
            (file.names and lacking, f"names of [file] lacks the column {lacking}."),
            (
                not isinstance(learning, dict),
                "[learn] must be a table; write share = 0.2 in it, or nothing.",
            ),
            (
                isinstance(share, bool)
                or not isinstance(share, int | float | None)
                or not 0.0 < (0.5 if share is None else share) < 1.0,
                f"share of [learn] must be a number between 0 and 1, the part of the budget for "
                f"learning facts; got {share!r}.",
            ),
        )
        only(learning, ("share",), "[learn]")
        return cls(
            name, labels, columns, _row_norm_of(node, columns), unit.strip(), file, node,
            None if share is None else float(share), learnt, persons, bounds,
        )  # fmt: skip


def _plain(node: Any) -> Any:
    """Return the dates of a TOML file as texts, so that they can be written back."""
    if isinstance(node, dict):
        return dict(zip(node, map(_plain, node.values()), strict=True))
    if isinstance(node, list):
        return list(map(_plain, node))
    return node.isoformat() if isinstance(node, date | time) else node


def _row_norm_of(node: dict[str, Any], columns: tuple[Column, ...]) -> float:
    """Return the stated scale of rows, or a guess from the schema; NaN while facts are open."""
    if "row_norm" in node:
        stated = _validate.positive("row_norm", node["row_norm"])
        if not 1e-6 <= stated <= 1e12:  # else squares could overflow
            raise InvalidParameter(f"row_norm must lie between 1e-6 and 1e12; got {stated:g}.")
        return stated
    if any(map(attrgetter("open"), columns)):
        return math.nan
    guess = sum(map(attrgetter("mean_square"), columns))
    return _validate.positive("row_norm", math.sqrt(guess) or 1.0)


Limits = tuple[float | None, float | None]


def _target_of(node: dict[str, Any], wanted: str | None) -> tuple[str, Limits | None]:
    """Return the name of the target and, where it is a number, its limits, None if still open."""
    stated, bounds = node.get("target"), None
    facts = stated if isinstance(stated, dict) else None
    if facts is not None:
        only(facts, ("name", "kind", "low", "high"), "[target]")
        if facts.get("kind") != "numeric":
            raise InvalidParameter(
                'kind of [target] must be "numeric"; labels are written target = "COLUMN" and '
                "classes."
            )
        low, high = (
            None if end == UNKNOWN else _validate.real("low and high of [target]", end)
            for end in (facts.get("low", UNKNOWN), facts.get("high", UNKNOWN))
        )
        if low is not None and high is not None and not 1e-30 < high - low < 1e30:
            raise InvalidParameter("[target] needs low < high, two finite numbers.")
        stated, bounds = facts.get("name", UNKNOWN), (low, high)
    stated = None if stated == UNKNOWN else stated
    refuse(
        (
            stated is not None and not isinstance(stated, str),
            "target must be the name of the label's column.",
        ),
        (
            stated is None and wanted is None,
            'the target column is missing; write target = "COLUMN" into the schema or pass '
            "--target COLUMN.",
        ),
        (
            stated is not None and wanted is not None and stated != wanted,
            f"--target is {wanted!r} but the schema says target = {stated!r}; make them agree.",
        ),
    )
    name = stated if stated is not None else str(wanted)
    node["target"] = name if facts is None else {**facts, "name": name}
    return name, bounds


def _columns_of(node: dict[str, Any], target: str, learnt: tuple[str, ...]) -> dict[str, Any]:
    """Return the stated columns; that of the identifiers of persons is never a feature."""
    listed, person = node.get("columns"), node.get("person")
    if isinstance(listed, dict) and person is not None:
        stated = listed.get(person, {"kind": "ignore"})
        if (stated.get("kind") if isinstance(stated, dict) else stated) != "ignore":
            raise InvalidParameter(
                f"column {person!r} identifies persons, so nothing may be learnt from it; "
                'give it kind = "ignore".'
            )
        listed = listed | {person: {"kind": "ignore"}}
    if not isinstance(listed, dict) or not listed:
        raise InvalidParameter(
            "the schema has no columns; write a table [columns.NAME] for each, or start from the "
            "template of `noisette schema`."
        )
    strange = ", ".join(map(repr, sorted({*learnt} - {*listed})))
    refuse(
        (
            target in listed,
            f"the target {target!r} must not stand under columns; its facts stand at the top.",
        ),
        (strange, f"learnt names {strange}, which does not stand under columns."),
    )
    return listed


def read_schema(path: str | Path, target: str | None = None, *, learn: bool = False) -> Schema:
    """Read a schema file; a fault of its TOML is quoted, for a schema is public.

    Parameters
    ----------
    path : str or Path
        A TOML file; `template` writes one to be filled in.
    target : str, optional
        The label's column as the command line asked for it.
    learn : bool, default False
        Whether bounds and categories may be left open: "?", or not written.

    Returns
    -------
    Schema
        The checked facts.

    Raises
    ------
    InvalidParameter
        If the file cannot be read, or a fact is missing, unknown or out of range.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from noisette.tables import read_schema
    >>> file = Path(tempfile.mkdtemp()) / "schema.toml"
    >>> _ = file.write_text('''
    ... target = "ill"
    ... classes = ["no", "yes"]
    ... unit = "one row is one person"
    ... [columns.age]
    ... kind = "numeric"
    ... low = 0
    ... high = 100
    ... ''')
    >>> read_schema(file).features
    ('age',)

    """
    data = _files.read(path, "schema file")
    with _files.understood(f"{path} is not a schema.", InvalidParameter):
        try:
            node = tomllib.loads(data.decode("utf-8-sig"))
        except UnicodeDecodeError:
            raise InvalidParameter(f"{path} is not a TOML file in UTF-8.") from None
        except tomllib.TOMLDecodeError as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise InvalidParameter(f"{path} is not valid TOML: {reason}.") from None
        try:
            return Schema.from_dict(node, target, learn=learn)
        except InvalidParameter as error:
            raise InvalidParameter(f"{path}: {error}") from None
