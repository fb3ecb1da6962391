"""Forest cover type, UCI: 581,012 map cells of 30 x 30 metres, 54 columns, 7 kinds of forest.

`COVERTYPE` is the usual binary task (lodgepole pine, class 2, against the rest), `COVERTYPE7` has
all seven classes. Row-local and public: units, and for each measure a round centre and spread
near the values that the publisher prints in ``covtype.info`` (section 8, "Basic Summary
Statistics"). That table was computed from these very rows by the publisher; it is public because
it was published, not because it is private. Values are clipped at three spreads. Nothing here
adds noise.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Integers
from noisette.errors import InvalidData
from noisette.tables.datasets.base import Encoder, number
from noisette.tables.kinds import Categorical, Cells, Column, Numeric
from noisette.tables.kinds.base import Entries

from .base import Raw, Source
from .files import read_bytes, words

__all__ = ["COVERTYPE", "COVERTYPE7"]

MEASURES = words(
    "Elevation Aspect Slope Horizontal_Distance_To_Hydrology Vertical_Distance_To_Hydrology "
    "Horizontal_Distance_To_Roadways Hillshade_9am Hillshade_Noon Hillshade_3pm "
    "Horizontal_Distance_To_Fire_Points"
)
CLASSES = (
    "Spruce/Fir",
    "Lodgepole Pine",
    "Ponderosa Pine",
    "Cottonwood/Willow",
    "Aspen",
    "Douglas-fir",
    "Krummholz",
)
TRAINING_ROWS = 11_340 + 3_780  # covtype.info, section 3: training and validation subsets


@dataclass(frozen=True)
class Angle(Column):
    """Degrees -> (cosine, sine) times `width` / 2."""

    width: float = 1.0

    @property
    def features(self) -> tuple[str, ...]:
        """Two features."""
        return (f"cos({self.name})", f"sin({self.name})")

    def entries(self, cells: Cells) -> Entries:
        """Return cosine and sine."""
        radians = np.deg2rad(cells.numbers())
        values = self.width / 2.0 * np.stack([np.cos(radians), np.sin(radians)], axis=1)
        return np.broadcast_to(np.arange(2, dtype=np.int32), values.shape), values


def _measure(name: str, centre: float, spread: float, weight: float = 0.5) -> Numeric:
    low, high = centre - 3.0 * spread, centre + 3.0 * spread
    return number(name, low, high, center=centre, width=6.0 * weight)


ENCODER = Encoder(
    (
        _measure("Elevation", 3000, 300, weight=0.7),
        number("Elevation", 2100, 3900, center=3000, width=6.0 * 0.6, square=True),
        Angle("Aspect", 0.6),
        _measure("Slope", 15, 7.5, weight=0.3),
        _measure("Horizontal_Distance_To_Hydrology", 270, 210, weight=0.3),
        _measure("Vertical_Distance_To_Hydrology", 45, 60, weight=0.3),
        _measure("Horizontal_Distance_To_Roadways", 2400, 1600, weight=0.3),
        _measure("Hillshade_9am", 210, 27, weight=0.3),
        _measure("Hillshade_Noon", 220, 20, weight=0.3),
        _measure("Hillshade_3pm", 140, 40, weight=0.3),
        _measure("Horizontal_Distance_To_Fire_Points", 2000, 1300, weight=0.3),
        Categorical.of("Wilderness_Area", ("1", "2", "3", "4"), "1", other=False, weight=0.7),
        Categorical.of("Soil_Type", [str(k) for k in range(1, 41)], other=False, weight=0.7),
    ),
    typical_norm=1.5,
)


def _integers(folder: Path) -> NDArray[np.int64]:
    text = read_bytes(folder, "covtype.data")
    flat = np.fromstring(text.replace(b"\n", b","), dtype=np.int64, sep=",")
    if flat.size == 0 or flat.size % 55:
        raise InvalidData("a line does not have the 55 fields of the published format.")
    return flat.reshape(-1, 55)


def _position(indicators: NDArray[np.int64]) -> NDArray[np.bytes_]:
    """1, 2, ... for the first indicator that is set, 0 where none is."""
    first = np.where(indicators.any(axis=1), indicators.argmax(axis=1) + 1, 0)
    names = np.array([str(k).encode() for k in range(indicators.shape[1] + 1)])
    found: NDArray[np.bytes_] = names[first]
    return found


def _read7(folder: Path) -> Raw:
    rows = _integers(folder)
    table: dict[str, NDArray[np.generic]] = {
        name: rows[:, j].astype(np.int32) for j, name in enumerate(MEASURES)
    }
    table["Wilderness_Area"] = _position(rows[:, 10:14])
    table["Soil_Type"] = _position(rows[:, 14:54])
    return Raw(table, rows[:, 54] - 1, TRAINING_ROWS)


def _read2(folder: Path) -> Raw:
    raw = _read7(folder)
    lodgepole: Integers = (raw.y == 1).astype(np.int64)
    return Raw(raw.table, lodgepole, raw.train)


_PUBLIC = (
    "four wilderness areas, forty soil types, seven cover types, hillshade 0..255: covtype.info",
    "round centre and spread of each measure, after section 8 of covtype.info, clipped at three "
    "spreads; weights of the columns and the clipping norm 1.5: chosen without the rows",
)

COVERTYPE = Source(
    name="covertype",
    folder="covertype",
    title="Forest cover, lodgepole pine against the rest",
    class_names=("other", "Lodgepole Pine"),
    feature_names=ENCODER.features,
    read=_read2,
    encode=ENCODER,
    public=_PUBLIC,
    unit="one row is one map cell",
)

COVERTYPE7 = Source(
    name="covertype-7",
    folder="covertype",
    title="Forest cover, seven types",
    class_names=CLASSES,
    feature_names=ENCODER.features,
    read=_read7,
    encode=ENCODER,
    public=_PUBLIC,
    unit="one row is one map cell",
)
