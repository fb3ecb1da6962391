"""Public datasets with public encodings: `load("adult")`, and two synthetic ones.

One dataset, one file, one entry in `DATASETS`. The files are read in their published formats from
`data_home` or from the folder named by the environment variable NOISETTE_DATA; nothing is
downloaded and nothing is cached. Every encoding is row-local (see `noisette.datasets.base`), so
it costs no privacy; what each takes as public stands in its file and in `Dataset.public`.
"""

from pathlib import Path

from noisette import _validate
from noisette.datasets.adult import ADULT
from noisette.datasets.bank import BANK
from noisette.datasets.base import VARIABLE, Dataset, MissingData, Raw, Source, locate
from noisette.datasets.covertype import COVERTYPE, COVERTYPE7
from noisette.datasets.credit import CREDIT
from noisette.datasets.kddcup99 import KDDCUP99
from noisette.datasets.mixed import MixedTable, mixed_table
from noisette.datasets.mnist import FASHION, MNIST, MNIST14
from noisette.datasets.sphere import sphere

__all__ = [
    "DATASETS",
    "VARIABLE",
    "Dataset",
    "MissingData",
    "MixedTable",
    "Raw",
    "Source",
    "load",
    "locate",
    "mixed_table",
    "sphere",
]

DATASETS: dict[str, Source] = {
    source.name: source
    for source in (
        ADULT, KDDCUP99, COVERTYPE, COVERTYPE7, BANK, CREDIT, MNIST, MNIST14, FASHION,
    )
}  # fmt: skip


def load(
    name: str,
    data_home: str | Path | None = None,
    *,
    split: str = "80/20",
    seed: int = 0,
) -> Dataset:
    """Return dataset `name`, encoded and split.

    ``split="80/20"`` permutes all rows with `seed` and holds out a fifth, as the published
    benchmarks do; ``split="published"`` is the publisher's own division where there is one
    (`InvalidParameter` says so where there is none). Raises `MissingData` if the folder or a file
    is absent.
    """
    name = _validate.choice("name", name, DATASETS)
    return DATASETS[name].load(data_home, split, seed)
