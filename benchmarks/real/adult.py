"""Adult (census income), UCI: 48,842 people, income above 50,000 dollars or not.

Row-local and public: column bounds, level lists (``adult.names``), the reference person. `fnlwgt`
is the survey's sampling weight, not a trait, and `education` repeats `education-num`: both are
left out. Missing fields (``?``) fall into the "other" slot. Not private by itself: nothing here
adds noise; the guarantee starts at the estimator.
"""

from pathlib import Path

import numpy as np

from noisette.tables.datasets.base import Encoder, number
from noisette.tables.kinds import Categorical

from .base import Raw, Source
from .files import read_bytes, read_text_columns, two_classes, words

__all__ = ["ADULT"]

COLUMNS = words(
    "age workclass fnlwgt education education-num marital-status occupation relationship race "
    "sex capital-gain capital-loss hours-per-week native-country income"
)

WORKCLASS = words(
    "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked"
)
MARITAL = words(
    "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent "
    "Married-AF-spouse"
)
OCCUPATION = words(
    "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty "
    "Handlers-cleaners Machine-op-inspct Adm-clerical Farming-fishing Transport-moving "
    "Priv-house-serv Protective-serv Armed-Forces"
)
RELATIONSHIP = words("Wife Own-child Husband Not-in-family Other-relative Unmarried")
RACE = words("White Asian-Pac-Islander Amer-Indian-Eskimo Other Black")
# The 41 countries of adult.names in five groups, so that a rare country is not a lone column.
COUNTRY = (
    ("United-States", ("United-States", "Outlying-US(Guam-USVI-etc)", "Puerto-Rico")),
    (
        "Latin-America",
        words(
            "Cuba Honduras Jamaica Mexico Dominican-Republic Ecuador Haiti Columbia Guatemala "
            "Nicaragua El-Salvador Trinadad&Tobago Peru"
        ),
    ),
    (
        "Asia",
        words(
            "Cambodia India Japan South China Iran Philippines Vietnam Laos Taiwan Thailand Hong"
        ),
    ),
    (
        "Europe-Canada",
        words(
            "England Canada Germany Greece Italy Poland Portugal Ireland France Hungary "
            "Scotland Yugoslavia Holand-Netherlands"
        ),
    ),
)

ENCODER = Encoder(
    (
        number("age", 17, 90, center=40, width=2.0),
        number("age", 17, 90, center=45, width=2.0, square=True),
        number("education-num", 1, 16, center=9, width=2.0),
        number("hours-per-week", 1, 99, center=40, width=2.0),
        number("capital-gain", 0, 99_999, curve="log1p"),
        number("capital-gain", 0, 15_000, width=1.0),
        number("capital-loss", 0, 4_500, curve="log1p"),
        Categorical.of("workclass", WORKCLASS, "Private"),
        Categorical.of("marital-status", MARITAL, "Married-civ-spouse"),
        Categorical.of("occupation", OCCUPATION, "Craft-repair"),
        Categorical.of("relationship", RELATIONSHIP, "Husband"),
        Categorical.of("race", RACE, "White"),
        Categorical.of("sex", ("Male", "Female"), "Male", other=False),
        Categorical("native-country", COUNTRY, "United-States"),
    ),
    typical_norm=2.0,
)


def read(folder: Path) -> Raw:
    """Read ``adult.data`` and ``adult.test`` (one comment line, labels with a dot)."""
    first = read_text_columns(read_bytes(folder, "adult.data"), COLUMNS)
    second = read_text_columns(read_bytes(folder, "adult.test"), COLUMNS, skip=1)
    table = {name: np.concatenate([first[name], second[name]]) for name in COLUMNS}
    y = two_classes(table.pop("income"), b">50K")
    return Raw(table, y, len(first["age"]))


ADULT = Source(
    name="adult",
    folder="adult",
    title="Adult census income, >50K",
    class_names=("<=50K", ">50K"),
    feature_names=ENCODER.features,
    read=read,
    encode=ENCODER,
    public=(
        "level lists of the categorical columns: adult.names",
        "age 17..90, education-num 1..16, hours 1..99, gains top-coded at 99,999: the CPS survey",
        "reference: a married white man in a private job in the United States, aged 40, high "
        "school, 40 hours a week; row norms clipped at 2 before scaling: chosen without the rows",
    ),
    unit="one row is one person",
)
