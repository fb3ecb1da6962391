"""Default of credit-card clients (Taiwan 2005), UCI: 30,000 clients, default next month or not.

Row-local and public: the attribute description on the UCI page (amounts in New Taiwan dollars;
repayment status -1 = paid duly, 1..8 = months of delay; -2 and 0 are used for "no consumption" and
"revolving credit"). `ID` is left out. Nothing here adds noise.
"""

from pathlib import Path

from noisette.tables.datasets.base import Encoder, number
from noisette.tables.kinds import Categorical, Column

from .base import Raw, Source
from .files import read_bytes, read_text_columns, two_classes, words

__all__ = ["CREDIT"]

MONTHS = ("0", "2", "3", "4", "5", "6")
COLUMNS = (
    *words("ID LIMIT_BAL SEX EDUCATION MARRIAGE AGE"),
    *(f"PAY_{month}" for month in MONTHS),
    *(f"BILL_AMT{month}" for month in range(1, 7)),
    *(f"PAY_AMT{month}" for month in range(1, 7)),
    "default",
)
# Status by month: the last one in full, the older ones as "paid in full" and "late".
LATE = tuple(str(months) for months in range(1, 10))


def _older(month: str) -> Column:
    groups = (("revolving", ("0",)), ("paid", ("-1", "-2")), ("late", LATE))
    return Categorical(f"PAY_{month}", groups, "revolving", other=False, weight=0.5)


ENCODER = Encoder(
    (
        number("LIMIT_BAL", 10_000, 1_000_000, center=150_000, curve="log1p", width=2.0),
        number("AGE", 20, 80, center=35),
        Categorical.of("SEX", ("1", "2"), "2", other=False, weight=0.5),
        Categorical.of("EDUCATION", ("1", "2", "3"), "2", weight=0.5),
        Categorical.of("MARRIAGE", ("1", "2"), "2", weight=0.5),
        Categorical.of("PAY_0", ("-2", "-1", "0", "1", "2"), "0"),
        *(_older(month) for month in MONTHS[1:]),
        *(
            number(f"BILL_AMT{month}", -100_000, 1_000_000, center=0, width=1.0)
            for month in range(1, 7)
        ),
        *(
            number(f"PAY_AMT{month}", 0, 1_000_000, center=2_000, curve="log1p", width=1.0)
            for month in range(1, 7)
        ),
    ),
    typical_norm=1.5,
)


def read(folder: Path) -> Raw:
    """Read ``UCI_Credit_Card.csv`` (commas, with header)."""
    table = read_text_columns(read_bytes(folder, "UCI_Credit_Card.csv"), COLUMNS, skip=1)
    y = two_classes(table.pop("default"), b"1")
    return Raw(table, y, None)


CREDIT = Source(
    name="credit",
    folder="credit_default",
    title="Credit-card default, next month",
    class_names=("pays", "defaults"),
    feature_names=ENCODER.features,
    read=read,
    encode=ENCODER,
    public=(
        "codes of sex, education, marriage and repayment status: the attribute list at UCI",
        "credit limit 10,000..1,000,000, bills -100,000..1,000,000, payments up to 1,000,000 New "
        "Taiwan dollars, age 20..80: ranges of a consumer credit card, larger values are clipped",
        "reference: a single woman with a university degree and revolving credit; row norms "
        "clipped at 1.5 before scaling: chosen without the rows",
    ),
    unit="one row is one client",
)
