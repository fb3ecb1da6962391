"""A model folder: the model file, its schema, its guarantee and the page for a reviewer.

The folder appears whole or not at all: it is made under another name beside its own, put on the
disk and renamed. The page comes last: whatever happens to it, what was paid for is there.
The schema's fingerprint stands among the guarantee's public facts, so a model with another schema
than its own is refused.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from noisette import _files, _validate
from noisette._validate import refuse
from noisette.core.guarantee import TAKEN_AS_GIVEN, Guarantee
from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.units import Persons, Unit
from noisette.models import files as model_files
from noisette.report import html
from noisette.tables import toml
from noisette.tables.drafts import Draft, clear_away, draft_of
from noisette.tables.frame import Frame
from noisette.tables.schema import Schema, read_schema

MODEL, RECEIPT = model_files.IN_FOLDER, model_files.RECEIPT
SCHEMA, GUARANTEE, REPORT = "schema.toml", "guarantee.json", "report.html"
_FILES = {MODEL, SCHEMA, GUARANTEE, REPORT, RECEIPT}
_LEARNT = 20
_ROOM = 1 << 19  # bytes of a page and of what does not grow with the columns


@dataclass(frozen=True)
class Encoded:
    """A table as a model takes it; ``repr`` shows nothing of it.

    `X` are rows of norm at most 1, CSR if `Schema.sparse` says so, or the cells for a model that
    encodes them by itself; `y` the labels if they were asked for; `persons` says whose rows they
    are, where the schema says how to tell.
    """

    X: Any
    y: Any
    persons: Persons | None = None

    def __repr__(self) -> str:
        return "<Encoded table>"  # how many rows there are may be private

    @property
    def count(self) -> int:
        """The number of rows, or of persons where rows are grouped by person."""
        return Unit.of(self.persons, int(self.X.shape[0])).count


def encode(path: str | Path, schema: Schema, *, target: bool, header: bool = True) -> Encoded:
    r"""Read and encode a whole table; with `target` its labels and persons too.

    Each row is encoded by itself: divided by ``row_norm`` and cut to norm 1. So neighbouring tables
    become neighbouring matrices, and encoding costs no privacy.

    Parameters
    ----------
    path : str or Path
        A CSV or Parquet file.
    schema : Schema
        The public facts about its columns.
    target : bool
        Whether to read the labels too.
    header : bool, default True
        Whether a CSV file has a header line.

    Returns
    -------
    Encoded
        The matrix and the labels.

    Raises
    ------
    InvalidData
        If the file cannot be read, lacks a column, has no rows or an unknown label.
    InvalidParameter
        If the table has a column that is not in the schema.
    MissingExtra
        If the file is Parquet and pyarrow is absent.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from noisette.tables import Schema, encode
    >>> facts = {"target": "ill", "classes": ["no", "yes"], "unit": "one row is one person"}
    >>> facts["columns"] = {"age": {"kind": "numeric", "low": 0, "high": 100}}
    >>> table = Path(tempfile.mkdtemp()) / "patients.csv"
    >>> _ = table.write_text("age,ill\n31,no\n62,yes\n")
    >>> encode(table, Schema.from_dict(facts), target=True).y.tolist()
    ['no', 'yes']

    """
    schema.check_complete()
    return TableModel(None, schema).read(Path(path), target=target, header=header)


@dataclass(frozen=True)
class TableModel:
    r"""A fitted estimator and the schema by which tables are encoded for it.

    Parameters
    ----------
    model : LogisticRegression, LinearSVC or SGDClassifier
        A fitted estimator.
    schema : Schema
        The public facts about its tables.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from noisette import LogisticRegression
    >>> from noisette.tables import Schema
    >>> from noisette.tables.folders import TableModel
    >>> facts = {"target": "ill", "classes": ["no", "yes"], "unit": "one row is one person"}
    >>> facts["columns"] = {"age": {"kind": "numeric", "low": 0, "high": 100}}
    >>> X, y = np.linspace(-1, 1, 100)[:, None], np.repeat(["no", "yes"], 50)
    >>> model = LogisticRegression(epsilon=1.0, norm_bound=1.0, classes=["no", "yes"]).fit(X, y)
    >>> fitted = TableModel(model, Schema.from_dict(facts))
    >>> fitted.guarantee.epsilon
    1.0
    >>> path = Path(tempfile.mkdtemp()) / "new.csv"
    >>> _ = path.write_text("age\n30\n60\n")
    >>> model.predict(fitted.read(path, target=False).X).shape
    (2,)

    """

    model: Any
    schema: Schema

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the model."""
        return cast(Guarantee, self.model.privacy_)

    def read(self, path: Path, *, target: bool, header: bool = True) -> Encoded:
        """Return a table as the model takes it: cells if it encodes them itself, else rows.

        Parameters
        ----------
        path : Path
            A CSV or Parquet file.
        target : bool
            Whether to read the labels too.
        header : bool, default True
            Whether the first line of a CSV file names the columns.

        Returns
        -------
        Encoded
            The table and its labels.

        """
        frame = Frame.read(path, self.schema, target=target, header=header)
        # a model without a schema is of the time before tables were encoded by their models
        rows = frame if takes_tables(self.model) else frame.encode()
        return Encoded(rows, frame.labels(), frame.persons()) if target else Encoded(rows, None)


def takes_tables(model: Any) -> bool:
    """Whether a model learnt the facts of its columns and encodes cells by itself."""
    return hasattr(model, "schema")


def stated(guarantee: Guarantee, schema: Schema, *, learnt: bool = False) -> Guarantee:
    """Return the guarantee about the rows of the table: the schema is public, rows are encoded.

    `learnt` says that the model bought facts of the schema under the same guarantee.
    """
    facts = "facts that are stated in the schema or were released"
    encoded = (
        f"Every row was encoded by itself, with the "
        f"{facts if learnt else 'public facts of the schema'} only, so the "
        "encoding costs nothing more; whatever was done to the table before is not covered."
    )
    known = [schema.public[0], *schema.public[2:]] if learnt else schema.public
    notes = [encoded if note == TAKEN_AS_GIVEN else note for note in guarantee.notes]
    more = "k times epsilon" + (" and more than k times delta" if guarantee.delta else "")
    note = f"Unit of protection: {schema.unit}; a person with k rows has {more}."
    if schema.persons is not None:
        note = f"Unit of protection: {schema.protected}."
    return replace(
        guarantee,
        public=(*guarantee.public, *known),
        proofs=(*guarantee.proofs, "ROW-LOCAL"),
        notes=(*notes, note),
    )


def check_folder(folder: Path, *, force: bool) -> None:
    """Refuse a place where a model folder cannot or must not be written.

    Nothing is changed, except that what a killed run left unfinished there is cleared away.
    """
    target = _validate.real_path(folder)
    if clear_away(target) is not None:
        raise InvalidParameter(
            f"a training that was stopped left a finished model for {folder}, which is paid for; "
            f"before another is, bring it back with: noisette recover {folder}."
        )
    refuse(
        (folder.exists() and not folder.is_dir(),
         f"{folder} is a file; give the name of a folder for the model."),
        (target == Path.cwd(),
         "the model needs a folder of its own; give --out the name of one."),
        (not target.parent.is_dir(),
         f"the folder {folder.parent} does not exist; nothing was written."),
    )  # fmt: skip
    there = {item.name for item in folder.iterdir()} if folder.exists() else set[str]()
    refuse(
        (there and not force,
         f"{folder} exists and is not empty; give another --out, or --force to replace the "
         "model in it."),
        (there - _FILES or (there and not (folder / MODEL).is_file()),
         f"{folder} is not a model folder of noisette, so --force will not replace it."),
    )  # fmt: skip


def prepare(draft: Draft, schema: Schema) -> None:
    """Take room for a model of such tables, its guarantee and its page: all before a charge."""
    outputs = 1 if schema.target_bounds is not None else len(schema.classes)
    # of a column with open facts a guess: how many levels or pieces it will have is to be learnt
    width = _LEARNT * len(schema.columns) if schema.open else len(schema.features)
    spread = 24 * width**2 if schema.target_bounds is not None else 0  # what intervals need
    draft.new.mkdir()
    # until there is a page, the base of all pages says so
    _files.write(draft.new / REPORT, html.render("base.html", title="Privacy report"))
    draft.reserve(_ROOM + 256 * width * outputs + spread)


def fill(draft: Draft, fitted: TableModel) -> None:
    """Put a model into its draft and on the disk; the model file last, for then it is whole."""
    draft.make_room()
    _files.write(draft.new / SCHEMA, toml.dumps(fitted.schema.source))
    _files.write(draft.new / GUARANTEE, fitted.guarantee.to_json() + "\n")
    model_files.save(fitted.model, draft.new / MODEL)
    _files.undate(draft.new)


def add_page(folder: Path, page: str) -> None:
    """Write the page of a model that has its name, in the place of the sentence."""
    _files.write(folder / REPORT, page)
    _files.undate(folder)


def write_model(folder: Path, fitted: TableModel, page: str, *, force: bool = True) -> Path:
    """Write a model folder, which appears whole or not at all, and then its page.

    Parameters
    ----------
    folder : Path
        The model's folder.
    fitted : TableModel
        The model, whose guarantee states the schema among the public facts.
    page : str
        The HTML page for a reviewer.
    force : bool, default True
        Whether a model that is there is replaced; else this one gets a free name beside it.

    Returns
    -------
    Path
        Where the model is.

    Raises
    ------
    InvalidParameter
        If the model cannot be saved (see `noisette.save`).

    Examples
    --------
    >>> import tempfile
    >>> from dataclasses import replace
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from noisette import LogisticRegression
    >>> from noisette.tables import Schema, read_model, write_model
    >>> from noisette.tables.folders import TableModel
    >>> facts = {"target": "ill", "classes": ["no", "yes"], "unit": "one row is one person"}
    >>> facts["columns"] = {"age": {"kind": "numeric", "low": 0, "high": 100}}
    >>> schema = Schema.from_dict(facts)
    >>> X, y = np.zeros((100, len(schema.features))), np.repeat(["no", "yes"], 50)
    >>> model = LogisticRegression(epsilon=1.0, norm_bound=1.0, classes=["no", "yes"]).fit(X, y)
    >>> promise = model.privacy_
    >>> model.privacy_ = replace(promise, public=(*promise.public, *schema.public))
    >>> home = Path(tempfile.mkdtemp())
    >>> write_model(home / "risk", TableModel(model, schema), "<html>").name
    'risk'
    >>> read_model(home / "risk").guarantee.epsilon
    1.0

    """
    with draft_of(folder) as draft:
        prepare(draft, fitted.schema)
        fill(draft, fitted)
        place = draft.give_name(force=force)
        add_page(place, page)
    return place


def read_model(folder: str | Path) -> TableModel:
    """Return the model and its schema; parts that contradict each other are refused.

    Parameters
    ----------
    folder : str or Path
        What ``noisette train`` wrote.

    Returns
    -------
    TableModel
        The model and its schema.

    Raises
    ------
    InvalidParameter
        If there is no model folder, or a file in it cannot be read.
    InvalidData
        If the parts do not belong together.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from noisette.tables import read_model
    >>> read_model(Path(tempfile.mkdtemp()) / "none")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    noisette.errors.InvalidParameter: there is no model folder ...; `noisette train` makes one.

    """
    folder = Path(folder)
    if not folder.exists():
        raise InvalidParameter(f"there is no model folder {folder}; `noisette train` makes one.")
    for name in (MODEL, SCHEMA):
        if not (folder / name).is_file():
            raise InvalidParameter(f"{folder} is not a model folder: it has no {name}.")
    model = load_model(folder / MODEL)
    schema = read_schema(folder / SCHEMA)
    classes, width = getattr(model, "classes_", None), getattr(model, "width_", None)
    refuse(
        (schema.public[0] not in model.privacy_.public,
         f"{folder / SCHEMA} is not the schema that the model was trained with; restore it."),
        (len(schema.features) != (model.n_features_in_ if width is None else width),
         f"the schema in {folder} does not fit the features of its model."),
        (sorted(schema.classes) != ([] if classes is None else classes.tolist()),
         f"the schema in {folder} does not fit the classes of its model."),
        kind=InvalidData,
    )  # fmt: skip
    return TableModel(model, schema)


def load_model(path: Path) -> Any:
    """Return the estimator in a model file, with one sentence if the file cannot be read."""
    try:
        return model_files.load(path)
    except OSError as error:
        raise InvalidParameter(f"{path} cannot be read ({error.strerror}).") from None
