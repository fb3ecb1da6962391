"""Step 1: a table on this machine, of which the header and the types are read, and no cell."""

import csv
import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisette._validate import refuse, visible
from noisette.errors import InvalidData, InvalidParameter
from noisette.models.files import IN_FOLDER
from noisette.tables import template
from noisette.tables.kinds.facts import UNKNOWN
from noisette.tables.reading import is_parquet

_ENDINGS = (".csv", ".tsv", ".txt", ".data", ".gz", ".parquet", ".pq")
_WORKBOOKS = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods", ".numbers")
_MOST_COLUMNS = 2000
_MOST_ENTRIES = 400

_WORDS = {
    "ignore": """id ids uuid guid key identifier nr name surname firstname lastname forename email
        mail phone telephone mobile fax address street comment comments note notes text description
        remark remarks ssn nhs iban url link index rowid token hash photo image""",
    "hashed": """zip zipcode postcode postal plz icd icd9 icd10 diag diagnosis procedure drg atc
        ip isin sku merchant""",
    "date": """date datetime timestamp dob birthdate birthday born admitted discharged""",
    "numeric": """age years hours days minutes seconds weeks num number count counts amount price
        cost costs income salary wage wages balance weight wgt fnlwgt height bmi size length width
        depth distance rate ratio percent pct score total sum mean avg average min max minimum
        maximum duration stay pressure systolic diastolic glucose cholesterol temperature temp lat
        lon latitude longitude gain loss tenure charge charges bill limit elevation slope rooms
        value quantity volume population visits children pulse dose lab creatinine hemoglobin""",
    "categorical": """sex gender race ethnicity education occupation job work workclass class
        marital status relationship country nationality region state county city ward department
        dept hospital clinic type kind category group colour color smokes smoker smoking flag
        default housing loan contact outcome poutcome method service plan contract internet partner
        dependents language religion party brand insurance specialty stage grade blood""",
}
_KINDS = {word: kind for kind, words in _WORDS.items() for word in words.split()}


@dataclass(frozen=True)
class ChosenTable:
    """A table: where it is, what its header says, and by what a change would be noticed.

    `columns` are the names with the facts that types tell, `kinds` what is guessed, `file` the
    facts of the file; `stamp` are size, time and place, which are compared and never shown.
    """

    path: Path
    columns: dict[str, dict[str, Any]]
    kinds: dict[str, str]
    file: dict[str, Any]
    header: bool
    stamp: tuple[int, ...]

    @property
    def stem(self) -> str:
        """The name for files that are made from it."""
        stem = self.path.name
        for ending in _ENDINGS[::-1]:
            stem = stem.removesuffix(ending)
        kept = "".join(c if c.isalnum() or c in "-_" else "-" for c in stem if c.isprintable())
        return kept.strip("-")[:40] or "table"

    @property
    def read_as(self) -> str:
        """How a text file is read, in a sentence; nothing for a file that says so itself."""
        if is_parquet(self.path):
            return ""
        between = {";": "semicolons", "\t": "tabs", "|": "bars"}
        words = between.get(self.file.get("delimiter", ","), "commas")
        return (
            f"{words} separate its columns, numbers are written 1{self.file.get('decimal', '.')}5, "
            f"its letters are {self.file.get('encoding', 'utf-8')}"
        )

    @property
    def changed(self) -> bool:
        """Whether it vanished or is not the one of step 1."""
        return _stamp(self.path) != self.stamp

    def check_same(self) -> None:
        """Refuse to go on with another table than that of step 1."""
        place = visible(str(self.path))
        refuse(
            (not self.path.exists(), f"there is no table {place} any more."),
            (self.changed,
             f"{place} was changed or replaced since it was chosen; choose it again, and check "
             "what you said about it."),
            kind=InvalidData,
        )  # fmt: skip


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:  # it is gone
        return ()
    return found.st_size, found.st_mtime_ns, found.st_ino, found.st_dev


def on_page(error: Exception) -> str:
    """Return a sentence about a file in the words of the page, where no schema is written."""
    return str(error).replace("under [file] in the schema", "in step 1, “About the file”")


def choose(
    text: str, folder: Path, *, header: str = "auto", names: str = "", encoding: str = "utf-8",
    decimal: str = "",
) -> ChosenTable:  # fmt: skip
    """Return the table at a path, relative to `folder`; only its header and types are read.

    Without a `decimal` sign it is a comma where semicolons separate the names, else a point.
    """
    text = text.strip()
    if not text or "\x00" in text:
        raise InvalidParameter("give the path of a table, or choose one from the list.")
    path = Path(os.path.abspath(folder / os.path.expanduser(text)))
    refuse(
        (not path.exists(), f"there is no table {visible(str(path))}."),
        (path.suffix.lower() in _WORKBOOKS,
         f"{visible(path.name)} is a workbook, not a table; open it where it was made, save the "
         "sheet as “CSV UTF-8”, and choose that file."),
        kind=InvalidData,
    )  # fmt: skip
    stamp = _stamp(path)
    # what the first line is: names if that is beyond doubt, surely names, or a row
    first = {"auto": None, "names": True, "row": False}.get(header)
    try:
        node = tomllib.loads(template(path, header=first, encoding=encoding, learn=True))
    except InvalidData as error:
        if first is None and "numbers where names are expected" in str(error):
            raise InvalidData(
                "the first line of the file has numbers where names are expected; say below "
                "whether it is a row, and what the columns are called."
            ) from None
        raise InvalidData(on_page(error)) from None
    columns: dict[str, dict[str, Any]] = node["columns"]
    if len(columns) > _MOST_COLUMNS:
        raise InvalidData(
            f"the table has {len(columns)} columns, too many for this page; use `noisette schema`."
        )
    file = dict(node.get("file", {}))
    if first is False:
        cells = (cell.strip() for line in csv.reader(names.splitlines()) for cell in line)
        given = list(filter(None, cells)) or list(columns)
        refuse(
            (len(given) != len(columns),
             f"the first line has {len(columns)} cells, but {len(given)} names were given; give "
             "one name for each column, in order."),
            (len(set(given)) != len(given), "two columns have the same name; rename one."),
        )  # fmt: skip
        columns, file["names"] = dict(zip(given, columns.values(), strict=True)), given
    if (decimal or ("," if file.get("delimiter") == ";" else ".")) == ",":
        file["decimal"] = ","
    kinds = {}
    for name, facts in columns.items():  # where a name says that it is an identifier, it wins
        by_name, by_type = guessed_kind(name), facts["kind"]
        named = by_type == UNKNOWN or by_name in ("ignore", "hashed")
        kinds[name] = by_name if named else by_type
    return ChosenTable(path, columns, kinds, file, first is not False, stamp)


def guessed_kind(name: str) -> str:
    """Return the kind that a name suggests, by its last telling word; nothing if none is known."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name[:200])
    words = [word for word in re.split(r"[^a-z0-9]+", spaced.lower()) if word]
    if words and words[0] in ("is", "has", "had", "was") and len(words) > 1:
        return "categorical"
    if len(words) > 1 and words[-1] in ("at", "on"):  # admitted_at
        return "date"
    return next((_KINDS[word] for word in reversed(words) if word in _KINDS), "")


def listed(folder: Path) -> Path:
    """Return the folder to list: the one that was asked for, or the next one above that exists."""
    folder = Path(os.path.abspath(os.path.expanduser(folder)))
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return folder


def entries(folder: Path) -> list[tuple[bool, str, str]]:
    """Return the folders (True first) and tables in a folder: what it is, its name and path.

    Hidden ones and models are left out.
    """
    found = []
    try:
        with os.scandir(folder) as items:
            for item in items:
                is_folder = item.is_dir() and not (Path(item.path) / IN_FOLDER).is_file()
                wanted = is_folder or item.name.lower().endswith(_ENDINGS)
                text = item.path.encode(errors="replace").decode() == item.path
                if wanted and text and not item.name.startswith("."):
                    found.append((is_folder, item.name, item.path))
    except OSError as error:
        raise InvalidParameter(
            f"{visible(str(folder))} cannot be listed ({error.strerror})."
        ) from None
    return sorted(found, key=lambda each: (not each[0], each[1].lower()))[:_MOST_ENTRIES]
