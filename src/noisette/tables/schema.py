"""The schema: every public fact about a table, written down by a person, read from a TOML file.

    target = "ill"
    classes = ["no", "yes"]
    unit = "one row is one patient"

    [columns.age]
    kind = "numeric"
    low = 0
    high = 110

Whatever is missing here is an error that names the column. No fact is ever read off the rows.
"""

import hashlib
import json
import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisette import _validate
from noisette.columns import Column, canonical
from noisette.errors import InvalidParameter
from noisette.tables.column_facts import column_of, labels_of, only, text_list

__all__ = ["UNKNOWN", "FileFacts", "Schema", "read_schema"]

UNKNOWN = "?"
"""What `noisette schema` writes where a person has to fill in a fact."""

_TOP = ("target", "classes", "unit", "row_norm", "missing", "file", "columns")
_LARGEST = 1 << 24


def _reads_tables(encoding: Any) -> bool:
    """Whether an encoding reads the signs of a table as themselves, wherever they stand.

    Names of no text encoding fail, and so do those of two bytes a letter, and codecs for other
    things than files (punycode, idna, unicode-escape).
    """
    signs, escape = 'abcXYZ0189,;|\t"\r\n.-+ .xn--bcher-kva', b"\\u0041"
    try:
        plain = signs.encode("ascii").decode(encoding) == signs
        return bool(plain and len(escape.decode(encoding)) == len(escape))
    except (LookupError, TypeError, ValueError):
        return False


@dataclass(frozen=True)
class FileFacts:
    """How the file is written; `names` are the columns of a file without a header line."""

    delimiter: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    names: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, node: Any) -> "FileFacts":
        """Check the table ``[file]`` of a schema."""
        if not isinstance(node, dict):
            raise InvalidParameter("[file] must be a table with delimiter, decimal or encoding.")
        only(node, ("delimiter", "decimal", "encoding", "names"), "[file]")
        delimiter, decimal = node.get("delimiter", ","), node.get("decimal", ".")
        if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
            raise InvalidParameter(f"delimiter must be one character; got {delimiter!r}.")
        if decimal not in (".", ",") or decimal == delimiter:
            raise InvalidParameter(
                f"decimal must be '.' or ',' and not the delimiter; got {decimal!r}."
            )
        encoding = node.get("encoding", "utf-8")
        if not _reads_tables(encoding):
            raise InvalidParameter(
                "encoding must be a name such as 'utf-8' or 'latin-1', not UTF-16; "
                f"got {encoding!r}."
            )
        names = text_list(node.get("names", []), "names of [file]", empty=True)
        return cls(delimiter, decimal, encoding, names)

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as they stand in a schema file."""
        facts: dict[str, Any] = {
            "delimiter": self.delimiter,
            "decimal": self.decimal,
            "encoding": self.encoding,
        }
        return facts | ({"names": list(self.names)} if self.names else {})


@dataclass(frozen=True)
class Schema:
    """All public facts about a table, checked; `source` is the checked TOML as dictionaries."""

    target: str
    labels: tuple[tuple[str, tuple[str, ...]], ...]
    columns: tuple[Column, ...]
    row_norm: float
    unit: str
    file: FileFacts
    source: dict[str, Any]

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes."""
        return tuple(name for name, _ in self.labels)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of all features, in the order of the schema."""
        return tuple(name for column in self.columns for name in column.features)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of a file without a header: as named, or in order with the target last."""
        if self.file.names:
            return self.file.names
        return (*(column.name for column in self.columns), self.target)

    @property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that change with any fact, but not with comments."""
        text = json.dumps(self.source, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def public(self) -> tuple[str, ...]:
        """What a guarantee should say is treated as public."""
        used = [column for column in self.columns if column.features]
        facts = (
            f"the schema {self.fingerprint} (names, bounds and categories of {len(used)} columns, "
            "the labels)"
        )
        scale = (
            f"the scale {self.row_norm:.6g} by which encoded rows were divided before they were "
            "cut to the norm bound"
        )
        return facts, scale, "that the file is a table of the schema's form with at least one row"

    @classmethod
    def from_dict(cls, node: Any, target: str | None = None) -> "Schema":
        """Check the content of a schema file; `target` is what the command line asked for."""
        if not isinstance(node, dict):
            raise InvalidParameter("a schema is a table with target, classes and columns.")
        only(node, _TOP, "the schema")
        node = dict(node)
        name = _target_of(node, target)
        node["target"] = name
        labels = labels_of(node.get("classes"))
        columns = _columns_of(node, name)
        node["columns"] = {
            column.name: node["columns"][column.name] if column.features else {"kind": "ignore"}
            for column in columns
        }
        if not any(column.features for column in columns):
            raise InvalidParameter("the schema has no column to learn from.")
        unit = node.get("unit", UNKNOWN)
        if unit == UNKNOWN:
            raise InvalidParameter(
                "unit is still to be filled in; write what one row stands for, such as unit = "
                '"one row is one person", because the guarantee protects one row.'
            )
        if not isinstance(unit, str) or not unit.strip():
            raise InvalidParameter("unit must say in a few words what one row stands for.")
        file = FileFacts.from_dict(node.get("file", {}))
        _check_names(file.names, [column.name for column in columns], name)
        default = math.sqrt(sum(column.mean_square for column in columns))
        row_norm = _validate.positive("row_norm", node.get("row_norm", default))
        if "row_norm" in node and not 1e-6 <= row_norm <= 1e12:  # else squares could overflow
            raise InvalidParameter(f"row_norm must lie between 1e-6 and 1e12; got {row_norm:g}.")
        return cls(name, labels, columns, row_norm, unit.strip(), file, node)


def _target_of(node: dict[str, Any], wanted: str | None) -> str:
    stated = node.get("target")
    if stated == UNKNOWN:
        stated = None
    if stated is not None and not isinstance(stated, str):
        raise InvalidParameter("target must be the name of the label's column.")
    if stated is None and wanted is None:
        raise InvalidParameter(
            'the target column is missing; write target = "COLUMN" into the schema or pass '
            "--target COLUMN."
        )
    if stated is not None and wanted is not None and stated != wanted:
        raise InvalidParameter(
            f"--target is {wanted!r} but the schema says target = {stated!r}; make them agree."
        )
    return stated if stated is not None else str(wanted)


def _columns_of(node: dict[str, Any], target: str) -> tuple[Column, ...]:
    listed = node.get("columns")
    if not isinstance(listed, dict) or not listed:
        raise InvalidParameter(
            "the schema has no columns; write a table [columns.NAME] for each, or start from the "
            "template of `noisette schema`."
        )
    if target in listed:
        raise InvalidParameter(
            f"the target {target!r} must not stand under columns; its labels are the classes."
        )
    shared = text_list(node.get("missing", []), "missing", empty=True)
    return tuple(column_of(name, facts, shared) for name, facts in listed.items())


def _check_names(names: tuple[str, ...], columns: list[str], target: str) -> None:
    if not names:
        return
    if len(set(names)) != len(names):
        raise InvalidParameter("names of [file] lists a column twice.")
    listed = set(names)
    for name in (*columns, target):
        if name not in listed:
            raise InvalidParameter(f"names of [file] lacks the column {name!r}.")


def read_schema(path: Path, target: str | None = None) -> Schema:
    """Read a schema file; a fault of its TOML is quoted, for a schema is public."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InvalidParameter(f"there is no schema file {path}.") from None
    except IsADirectoryError:
        raise InvalidParameter(f"{path} is a folder, not a schema file.") from None
    except OSError as error:
        raise InvalidParameter(f"{path} cannot be read ({error.strerror}).") from None
    if len(data) > _LARGEST:
        raise InvalidParameter(f"{path} is too large for a schema.")
    try:
        node = tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidParameter(f"{path} is not a TOML file in UTF-8.") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InvalidParameter(f"{path} is not valid TOML: {reason}.") from None
    try:
        return Schema.from_dict(node, target)
    except InvalidParameter as error:
        raise InvalidParameter(f"{path}: {error}") from None


def spelling(labels: tuple[tuple[str, tuple[str, ...]], ...]) -> dict[str, int]:
    """Return the position of the class for every accepted spelling of a label."""
    return {canonical(text): k for k, (_, texts) in enumerate(labels) for text in texts}
