"""What every dataset has: the frozen result, the recipe behind it, the folder and the split.

Encodings are **row-local**: the features of a row depend on that row and on public facts written
in the code, never on other rows. A row-local map costs no privacy, and neighbouring tables stay
neighbouring. What would not be private is learning a bound, a mean, a category list or a
vocabulary from the rows; no loader does that.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from noisette import _validate
from noisette._typing import Floats, Integers
from noisette.core.randomness import Randomness
from noisette.errors import InvalidData, InvalidParameter, NoisetteError
from noisette.tables.datasets.base import Dataset, Table
from noisette.tables.kinds import Numeric

from .homes import FILES

__all__ = ["VARIABLE", "Dataset", "MissingData", "Raw", "Source", "locate"]

VARIABLE = "NOISETTE_DATA"
"""The environment variable that names the folder with the files."""
SPLITS = ("published", "80/20")


class MissingData(NoisetteError, FileNotFoundError):
    """The files of a dataset are not there. Next: point NOISETTE_DATA at the folder with them.

    Examples
    --------
    >>> from benchmarks.real import load
    >>> load("adult", data_home="nowhere")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    benchmarks.real.base.MissingData: there is no folder 'adult' in 'nowhere'; ...

    """


@dataclass(frozen=True)
class Raw:
    """Columns as published, labels as positions in the class list, rows in published order.

    Parameters
    ----------
    table : mapping of str to ndarray
        The columns.
    y : ndarray of shape (n,)
        The labels.
    train : int or None
        The first so many rows are the published training set; None if there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from benchmarks.real import Raw
    >>> Raw({"age": np.array([31, 62])}, np.array([0, 1]), train=None).train is None
    True

    """

    table: Table
    y: Integers
    train: int | None


@dataclass(frozen=True)
class Source:
    """The recipe of one dataset: how to read its files and how to encode its rows.

    `read` and `encode` are apart so that a test can encode any subset of the rows.

    Parameters
    ----------
    name : str
        The name of the dataset.
    folder : str
        The folder with its files.
    title : str
        What it is, in words.
    class_names : tuple of str
        The names of the labels.
    feature_names : tuple of str
        The names of the features.
    read : callable
        ``read(folder)`` returns the columns as published, a `Raw`.
    encode : callable
        ``encode(table)`` is row-local and returns rows within `norm_bound`.
    public : tuple of str
        What the encoding takes as known beforehand.
    unit : str
        What one row stands for.
    norm_bound : float, default 1.0
        The bound on the rows.
    read_published : callable, optional
        Reads the published division where that needs further files.

    Examples
    --------
    >>> from benchmarks.real import DATASETS
    >>> DATASETS["adult"].class_names
    ('<=50K', '>50K')

    """

    name: str
    folder: str
    title: str
    class_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    read: Callable[[Path], Raw]
    encode: Callable[[Table], Floats]
    public: tuple[str, ...]
    unit: str
    norm_bound: float = 1.0
    read_published: Callable[[Path], Raw] | None = None

    def load(self, data_home: str | Path | None, split: str, seed: int) -> Dataset:
        """Read the files, split the rows, encode both parts.

        Parameters
        ----------
        data_home : str, path-like or None
            The folder that holds `folder`; None: $NOISETTE_DATA.
        split : {"80/20", "published"}
            How rows are divided.
        seed : int
            Of the random division.

        Returns
        -------
        Dataset
            Both parts, encoded.

        Raises
        ------
        MissingData
            If a folder or file is absent.
        InvalidData
            If a file is not what was published.
        InvalidParameter
            If there is no such split.

        """
        check_split(split, seed)
        reader = (self.read_published or self.read) if split == "published" else self.read
        folder = locate(self.folder, data_home)
        found = None
        try:
            raw = reader(folder)
            for column in getattr(self.encode, "columns", ()):
                if isinstance(column, Numeric):  # a table reads what is no number as missing
                    raw.table[column.name].astype(np.float64)
            found = self._divided(raw, split, seed)
        except NoisetteError:
            raise
        except (ValueError, IndexError, KeyError, OverflowError):
            pass  # what a parser says about a wrong file may quote a cell
        if found is None:
            raise InvalidData(
                f"the files of {self.name!r} in {str(folder)!r} are not what was published; "
                f"replace them{fetch_hint(self.folder)}."
            )
        return found

    def _divided(self, raw: Raw, split: str, seed: int) -> Dataset:
        n = len(raw.y)
        if n < 2:
            raise ValueError
        if split == "published":
            if raw.train is None:
                raise InvalidParameter(
                    f"dataset {self.name!r} has no published split; use split='80/20'."
                )
            train, test = slice(0, raw.train), slice(raw.train, n)
            X = self.encode(raw.table)
            X_train, y_train, X_test, y_test = X[train], raw.y[train], X[test], raw.y[test]
        else:
            order = Randomness.from_seed(seed).generator.permutation(n)
            chosen, held_out = order[: n - n // 5], order[n - n // 5 :]
            X_train, y_train = self.encode(_rows(raw.table, chosen)), raw.y[chosen]
            X_test, y_test = self.encode(_rows(raw.table, held_out)), raw.y[held_out]
        return Dataset(
            name=self.name,
            X=X_train,
            y=y_train,
            X_test=X_test,
            y_test=y_test,
            classes=np.arange(len(self.class_names)),
            class_names=self.class_names,
            feature_names=self.feature_names,
            norm_bound=self.norm_bound,
            public=self.public,
            unit=self.unit,
        )


def check_split(split: str, seed: int) -> None:
    """Refuse a wrong `split` or `seed` before any file is touched."""
    _validate.choice("split", split, SPLITS)
    _validate.integer("seed", seed, least=0)


def _rows(table: Table, chosen: Integers) -> dict[str, NDArray[np.generic]]:
    return {name: column[chosen] for name, column in table.items()}


def locate(folder: str, data_home: str | Path | None = None) -> Path:
    """Return the folder of one dataset under `data_home`, or else under $NOISETTE_DATA.

    Parameters
    ----------
    folder : str
        The name of the folder.
    data_home : str or path-like, optional
        Where to look.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    MissingData
        If it is not there.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from benchmarks.real import locate
    >>> home = Path(tempfile.mkdtemp())
    >>> (home / "adult").mkdir()
    >>> locate("adult", home).name
    'adult'

    """
    home = data_home if data_home is not None else os.environ.get(VARIABLE)
    names = " and ".join(repr(file.name) for file in FILES.get(folder, ()))
    if not home:
        raise MissingData(
            f"dataset folder {folder!r} (files {names}) is looked for under data_home or the "
            f"environment variable {VARIABLE}, and neither is set; set {VARIABLE} to the folder "
            f"that holds {folder!r}{fetch_hint(folder)}."
        )
    path = Path(home) / folder
    if not path.is_dir():
        raise MissingData(
            f"there is no folder {folder!r} in {str(home)!r}; put the published files {names} "
            f"there, or set {VARIABLE} (or data_home) to the folder that holds "
            f"them{fetch_hint(folder)}."
        )
    return path


def fetch_hint(folder: str, name: str | None = None) -> str:
    """Return the end of a sentence: where the file is published and how to fetch it."""
    files = [file for file in FILES.get(folder, ()) if name in (None, file.name)]
    if not files:
        return ""
    return (
        f", or fetch them from {files[0].homes[0].url} and its neighbours with "
        "benchmarks.real.download(name, data_home)"
        if name is None
        else f"; it is published at {files[0].homes[0].url}, and "
        "benchmarks.real.download(name, data_home) fetches it"
    )
