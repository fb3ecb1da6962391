"""Public datasets with public encodings: `load("adult")`, and the synthetic set of 2013.

One dataset, one file, one entry in `DATASETS`. The files are read in their published formats from
`data_home` or, without it, from the folder named by the environment variable NOISETTE_DATA; nothing
is downloaded unless asked (`download`, or ``load(..., download=True)``) and nothing is cached.
Every encoding is row-local (see `base`), so
it costs no privacy; what each takes as public stands in its file and in `Dataset.public`.
"""

from collections.abc import Callable
from pathlib import Path

from noisette import _validate
from noisette.tables.datasets.base import Dataset

from .adult import ADULT
from .bank import BANK
from .base import (
    VARIABLE,
    MissingData,
    Raw,
    Source,
    check_split,
    locate,
)
from .covertype import COVERTYPE, COVERTYPE7
from .credit import CREDIT
from .fetch import TIMEOUT, data_home_for_writing, download_files
from .kddcup99 import KDDCUP99
from .mnist import FASHION, MNIST, MNIST14
from .sphere import sphere

__all__ = [
    "DATASETS",
    "VARIABLE",
    "Dataset",
    "MissingData",
    "Raw",
    "Source",
    "download",
    "load",
    "locate",
    "sphere",
]

DATASETS: dict[str, Source] = {
    source.name: source
    for source in (
        ADULT, KDDCUP99, COVERTYPE, COVERTYPE7, BANK, CREDIT, MNIST, MNIST14, FASHION,
    )
}  # fmt: skip
"""Every dataset by its name."""


def load(
    name: str,
    data_home: str | Path | None = None,
    *,
    split: str = "80/20",
    seed: int = 0,
    download: bool = False,
) -> Dataset:
    """Return dataset `name`, encoded and split.

    Parameters
    ----------
    name : str
        A name in `DATASETS`.
    data_home : str or path-like, optional
        The folder with the files; $NOISETTE_DATA unless given.
    split : {"80/20", "published"}, default "80/20"
        ``"80/20"`` permutes all rows with `seed` and holds out a fifth, as the published
        benchmarks do; ``"published"`` is the publisher's own division where there is one.
    seed : int, default 0
        Of the random division.
    download : bool, default False
        Whether absent files are fetched from their public homes first.

    Returns
    -------
    Dataset
        Both parts, encoded.

    Raises
    ------
    MissingData
        If the folder or a file is absent.
    InvalidData
        If a file is not what was published.
    InvalidParameter
        If there is no such dataset or split.

    Examples
    --------
    >>> from benchmarks.real import load
    >>> load("adult", data_home="nowhere")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    benchmarks.real.base.MissingData: there is no folder 'adult' in 'nowhere'; ...

    """
    source = DATASETS[_validate.choice("name", name, DATASETS)]
    check_split(split, seed)
    if _validate.boolean("download", download):
        download_files(source.folder, data_home_for_writing(data_home))
    return source.load(data_home, split, seed)


def download(
    name: str,
    data_home: str | Path | None = None,
    *,
    mirror: str | None = None,
    timeout: float = TIMEOUT,
    say: Callable[[str], None] | None = None,
) -> list[Path]:
    """Fetch the published files of dataset `name` into `data_home`; return their paths.

    Each file is checked against the SHA-256 of its published content and put in place by one
    rename; files that are there and right are kept.

    Parameters
    ----------
    name : str
        A name in `DATASETS`.
    data_home : str or path-like, optional
        Where to put the files; $NOISETTE_DATA unless given.
    mirror : str, optional
        The address of a copy of the data folder that is tried first.
    timeout : float, optional
        In seconds.
    say : callable, optional
        Receives one line for each step.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    InvalidParameter
        If there is no such dataset; nothing is fetched.
    MissingData
        If a file cannot be fetched or written.
    InvalidData
        If what was fetched is not what was published; nothing is put in place.

    Examples
    --------
    >>> from benchmarks.real import download
    >>> download("nonsense")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    noisette.errors.InvalidParameter: name must be ...

    """
    source = DATASETS[_validate.choice("name", name, DATASETS)]
    home = data_home_for_writing(data_home)
    return download_files(source.folder, home, mirror=mirror, timeout=timeout, say=say)
