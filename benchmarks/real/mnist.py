"""MNIST and Fashion-MNIST: 70,000 grey images of 28 x 28 pixels, ten classes (IDX files).

Row-local: pixels are divided by 255 and each image by its own Euclidean norm, so every row has
norm 1 (a black image stays zero). Brightness is lost, shape is kept, and no row wastes room
inside the ball. No public fact about the images is used but their size and the ten classes. Not
protected: MNIST has many images by one writer, and the guarantee is about one image. Nothing here
adds noise.

``mnist-14`` averages blocks of 2 x 2 pixels first (row-local as well): a quarter of the
dimensions, hence about half the noise, and a linear model loses nothing by it.
"""

from pathlib import Path

import numpy as np

from noisette._typing import Floats
from noisette.fitting.clipping import clip_rows, row_norms
from noisette.tables.datasets.base import Table

from .base import Raw, Source
from .files import read_bytes, read_idx

__all__ = ["FASHION", "MNIST", "MNIST14"]

SIDE = 28
FASHION_CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


def read(folder: Path) -> Raw:
    """Read the four IDX files: the first 60,000 images are the published training set."""
    images, labels = [], []
    for part in ("train", "t10k"):
        images.append(read_idx(read_bytes(folder, f"{part}-images-idx3-ubyte")))
        labels.append(read_idx(read_bytes(folder, f"{part}-labels-idx1-ubyte")))
    table = {"pixels": np.concatenate(images).reshape(-1, SIDE * SIDE)}
    return Raw(table, np.concatenate(labels).astype(np.int64), len(labels[0]))


def _unit_rows(X: Floats) -> Floats:
    norms = row_norms(X)
    X /= np.where(norms > 0.0, norms, 1.0)[:, None]
    unit: Floats = clip_rows(X, 1.0)  # rounding may leave a norm an ulp above 1
    return unit


def encode(table: Table) -> Floats:
    """Pixels -> unit vectors, shape (n, 784)."""
    return _unit_rows(table["pixels"].astype(np.float64) / 255.0)


def encode_pooled(table: Table) -> Floats:
    """Pixels -> means of 2 x 2 blocks -> unit vectors, shape (n, 196)."""
    half = SIDE // 2
    blocks = table["pixels"].reshape(-1, half, 2, half, 2)
    pooled = blocks.sum(axis=(2, 4), dtype=np.int64).reshape(-1, half * half)
    return _unit_rows(pooled / (4.0 * 255.0))


def _names(side: int) -> tuple[str, ...]:
    return tuple(f"pixel[{i},{j}]" for i in range(side) for j in range(side))


_DIGITS = tuple(str(digit) for digit in range(10))
_PUBLIC = ("images of 28 x 28 bytes, ten classes: the format itself",)

MNIST = Source(
    name="mnist",
    folder="mnist",
    title="MNIST, ten digits",
    class_names=_DIGITS,
    feature_names=_names(SIDE),
    read=read,
    encode=encode,
    public=_PUBLIC,
    unit="one row is one image; many images are by one writer",
)

MNIST14 = Source(
    name="mnist-14",
    folder="mnist",
    title="MNIST at 14 x 14, ten digits",
    class_names=_DIGITS,
    feature_names=_names(SIDE // 2),
    read=read,
    encode=encode_pooled,
    public=_PUBLIC,
    unit="one row is one image; many images are by one writer",
)

FASHION = Source(
    name="fashion-mnist",
    folder="fashion_mnist",
    title="Fashion-MNIST, ten kinds of clothes",
    class_names=FASHION_CLASSES,
    feature_names=_names(SIDE),
    read=read,
    encode=encode,
    public=_PUBLIC,
    unit="one row is one product",
)
