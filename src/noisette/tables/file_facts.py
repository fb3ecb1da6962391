"""How a table's file is written: separator, decimal and thousands signs, encoding, names."""

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from noisette._validate import refuse
from noisette.errors import InvalidParameter
from noisette.tables.kinds.facts import only, text_list

_THOUSANDS = ("", ",", ".", " ", "'", "\u2019", "\u00a0", "\u202f")


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
    thousands: str = ""

    signs = property(attrgetter("decimal", "thousands"))
    """The decimal sign and the thousands sign of numbers that are written as texts."""

    @classmethod
    def from_dict(cls, node: Any) -> "FileFacts":
        """Check the table ``[file]`` of a schema."""
        if not isinstance(node, dict):
            raise InvalidParameter("[file] must be a table with delimiter, decimal or encoding.")
        only(node, ("delimiter", "decimal", "thousands", "encoding", "names"), "[file]")
        delimiter, decimal = node.get("delimiter", ","), node.get("decimal", ".")
        thousands, encoding = node.get("thousands", ""), node.get("encoding", "utf-8")
        refuse(
            (not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n',
             f"delimiter must be one character; got {delimiter!r}."),
            (decimal not in (".", ",") or decimal == delimiter,
             f"decimal must be '.' or ',' and not the delimiter; got {decimal!r}."),
            (thousands not in _THOUSANDS or thousands == decimal,
             "thousands must be a comma, a point, a blank or an apostrophe, and not the sign "
             f"of decimal; got {thousands!r}."),
            (not _reads_tables(encoding),
             "encoding must be a name such as 'utf-8' or 'latin-1', not UTF-16; "
             f"got {encoding!r}."),
        )  # fmt: skip
        names = text_list(node.get("names", []), "names of [file]", empty=True)
        return cls(delimiter, decimal, encoding, names, thousands)

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as they stand in a schema file."""
        facts: dict[str, Any] = {**vars(self), "names": list(self.names)}
        return {key: value for key, value in facts.items() if value}
