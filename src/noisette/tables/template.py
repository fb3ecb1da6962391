"""The template of `noisette schema`: names and types of columns, and not one value.

A CSV file has no types without looking at cells, so every kind is left open. Parquet stores types
beside the data; its statistics and dictionaries are values of rows and are not read.
"""

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from noisette.errors import InvalidData, InvalidParameter
from noisette.tables import toml
from noisette.tables.cells import arrow
from noisette.tables.encoding import refuse_doubled
from noisette.tables.kinds import KINDS
from noisette.tables.kinds.kind import Kind
from noisette.tables.reading import csv_header, is_parquet, open_parquet
from noisette.tables.schema import UNKNOWN, FileFacts

_DELIMITERS = (",", ";", "\t", "|")

_INTRODUCTION = """\
# Public facts about {name}, for `noisette train`.
#
# Fill in every "?" from what you know about the subject: a code book, a law, common sense.
# Do not look at the rows to do it: a bound or a category read off the data gives somebody away.
# The rows were not looked at to write this file; only {looked}.
#
{kinds}
#
# More options (center, width, curve, knots, reference, groups, missing): docs/command_line.md.

"""

_LEARNING = """\
# Facts about {name}, for `noisette train --learn`.
#
# Fill in by what you know about the subject, not by looking at the rows:
#   every kind      a kind is never learnt:
{kinds}
#   the classes     every label that can occur (a number to predict has none: see below),
#                   and the unit: what one row stands for
# The rows were not looked at to write this file; only {looked}.
#
# These may stay "?" or be left out; they are then learnt privately, from the budget of `train`:
#   low, high       of numbers and dates: private quantiles ("knots") are bought instead
#   categories      levels that enough people share are found; all others count as one, "other"
#
# What is worth knowing all the same, for a fact that you state costs nothing:
#   categories      levels are found with a delta only (--delta 1e-6); else they are hashed
#   low, high       with delta = 0 they save the price of all knots; with a delta they save little
#   missing         codes such as missing = ["?", 999]; an empty cell is missing anyway
#   format          of dates that are not written like 2020-12-31: format = "%d/%m/%Y"
#
# `noisette plan TABLE --schema THIS --epsilon 1` says what to expect, column by column.

"""


def _kind_line(kind: Kind) -> str:
    """Return what a template says of a kind of column."""
    facts, meaning = kind.example
    named = f'kind = "{kind.name}"'
    return f"#   {named:22} {f'{facts:29} ' if facts else ''}{meaning}".rstrip()


def _first_line(path: Path, encoding: str) -> tuple[list[str], dict[str, Any]]:
    """Return the names under the separator that divides the header line into most of them."""
    usual = best = FileFacts.from_dict({"encoding": encoding})
    names = list[str]()
    for sign in _DELIMITERS:
        facts = replace(usual, delimiter=sign)
        with contextlib.suppress(InvalidData):  # quotes may forbid it: one after a name in them
            found = csv_header(path, facts)
            names, best = (found, facts) if len(found) > len(names) else (names, best)
    if not names:
        csv_header(path, usual)  # says what is wrong
    plain = FileFacts().to_dict()
    return names, {key: value for key, value in best.to_dict().items() if value != plain[key]}


def _is_number(name: str) -> bool:
    try:
        float(name.replace(",", "."))
    except ValueError:
        return False
    return True


def template(
    path: str | Path, target: str | None = None, *, header: bool | None = None,
    encoding: str = "utf-8", learn: bool = False,
) -> str:  # fmt: skip
    r"""Return the text of a schema to be filled in; no row is looked at.

    Parameters
    ----------
    path : str or Path
        A CSV or Parquet file.
    target : str, optional
        The column to predict.
    header : bool, optional
        Whether a CSV file has a header line. If it is not given there should be one, and a
        first line with numbers is refused: it may be somebody's row, and a schema is public.
    encoding : str, default "utf-8"
        The encoding of a CSV file.
    learn : bool, default False
        Whether the training will learn bounds and categories, so that these may stay open.

    Returns
    -------
    str
        TOML with a "?" wherever a person has to state a fact.

    Raises
    ------
    InvalidData
        If the file cannot be read, or its header is doubtful.
    InvalidParameter
        If there is no such target, or an option does not fit the file.
    MissingExtra
        If the file is Parquet and pyarrow is absent.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from noisette.tables import template
    >>> table = Path(tempfile.mkdtemp()) / "patients.csv"
    >>> _ = table.write_text("age,ill\n31,no\n62,yes\n")
    >>> print(*template(table, "ill").splitlines()[-2:], sep="\n")
    [columns.age]
    kind = "?"

    """
    path, file_facts = Path(path), dict[str, Any]()
    if is_parquet(path):
        if header is False:
            raise InvalidParameter("a Parquet file names its columns; --no-header is for CSV.")
        with open_parquet(path) as file:
            columns = {field.name: _of_type(field.type) for field in file.schema_arrow}
            names = list(file.schema_arrow.names)
        looked = "the column names and types of its footer were read"
    else:
        names, file_facts = _first_line(path, encoding)
        looked = "its header line was read"
        if header is None and any(map(_is_number, names)):
            raise InvalidData(
                f"the first line of {path} has numbers where names are expected; give --no-header "
                "if it is a row, or --header if these are names."
            )
        if header is False:
            names = [f"column_{j + 1}" for j in range(len(names))]
            looked = "the cells of its first line were counted"
        columns = {name: {"kind": UNKNOWN} for name in names}
    refuse_doubled(names)
    if target is not None and target not in columns:
        raise InvalidParameter(f"the table has no column {target!r} to be the target.")
    if header is False:
        file_facts["names"] = names
    return _text(path.name, looked, target, columns, file_facts, learn=learn)


def _of_type(kind: Any) -> dict[str, Any]:
    """Return what a Parquet type says, by the first kind that knows it."""
    if arrow().types.is_dictionary(kind):
        kind = kind.value_type
    guesses = ((each.name, each.of_type(kind)) for each in KINDS.values() if each.of_type)
    return next({"kind": name, **facts} for name, facts in guesses if facts is not None)


def _text(
    name: str, looked: str, target: str | None, columns: dict[str, Any], file: dict[str, Any], *,
    learn: bool,
) -> str:  # fmt: skip
    lines = [
        (_LEARNING if learn else _INTRODUCTION).format(
            name="".join(c if c.isprintable() else "?" for c in name),  # else it is no comment
            looked=looked,
            kinds="\n".join(map(_kind_line, KINDS.values())),
        ),
        f"target = {toml.value(target or UNKNOWN)}  # the column to predict"
        + ("" if target else "; take it out of the columns below"),
        f"classes = [{toml.value(UNKNOWN)}]  # every label that can occur, whether it does or not",
        "# where the target is a number, write instead of these two lines, without the first mark:",
        f'# target = {{ name = {toml.value(target or UNKNOWN)}, kind = "numeric", '
        'low = "?", high = "?" }',
        f"unit = {toml.value(UNKNOWN)}  # what one row stands for (one person? one visit?): the "
        "guarantee protects one row",
        '# person = "COLUMN"  # where a person may have several rows: what identifies them',
        "# max_rows = 20  # of one person; needed where levels that nobody listed are learnt",
    ]
    if file:
        lines += ["", "[file]", *toml.entries(file)]
        if file.get("delimiter") == ";":  # where semicolons are usual, so are decimal commas
            lines.append('# decimal = ","  # take away the first mark if numbers look like 1,5')
    if learn:
        lines += [
            "",
            "[learn]",
            "# share = 0.2  # of the budget, for learning; else by a public rule",
        ]
    for column, facts in columns.items():
        if column != target:
            lines += ["", f"[columns.{toml.key(column)}]", *toml.entries(facts)]
    return "\n".join(lines) + "\n"
