"""Bank marketing (``bank-full``), UCI: 45,211 clients, subscribes a term deposit or not.

Row-local and public: column bounds and level lists (``bank-names.txt``), the reference client.
`duration` is known only after the call and is left out. `pdays` = -1 (never contacted before) is
told by `poutcome`, so the number counts from 0. Nothing here adds noise.
"""

from pathlib import Path

from noisette.tables.datasets.base import Encoder, number
from noisette.tables.kinds import Categorical

from .base import Raw, Source
from .files import read_bytes, read_text_columns, two_classes, words

__all__ = ["BANK"]

COLUMNS = words(
    "age job marital education default balance housing loan contact day month duration "
    "campaign pdays previous poutcome y"
)
JOB = words(
    "admin. unknown unemployed management housemaid entrepreneur student blue-collar "
    "self-employed retired technician services"
)
OUTCOME = ("unknown", "other", "failure", "success")
MONTH = words("jan feb mar apr may jun jul aug sep oct nov dec")

ENCODER = Encoder(
    (
        number("age", 18, 95, center=40, width=2.0),
        number("age", 18, 95, center=40, width=2.0, square=True),
        number("balance", -10_000, 100_000, center=500, curve="signed-log1p", width=2.0),
        number("day", 1, 31, center=16),
        number("campaign", 1, 60, center=1, curve="log1p"),
        number("pdays", 0, 900, center=0, curve="log1p"),
        number("previous", 0, 300, center=0, curve="log1p"),
        Categorical.of("job", JOB, "blue-collar"),
        Categorical.of("marital", ("married", "divorced", "single"), "married", other=False),
        Categorical.of("education", ("primary", "secondary", "tertiary"), "secondary"),
        Categorical.of("default", ("yes", "no"), "no", other=False),
        Categorical.of("housing", ("yes", "no"), "yes", other=False),
        Categorical.of("loan", ("yes", "no"), "no", other=False),
        Categorical.of("contact", ("unknown", "telephone", "cellular"), "cellular", other=False),
        Categorical.of("month", MONTH, "may", other=False),
        Categorical.of(
            "poutcome", ("unknown", "other", "failure", "success"), "unknown", other=False
        ),
    ),
    typical_norm=1.75,
)


def read(folder: Path) -> Raw:
    """Read ``bank-full.csv`` (semicolons, quoted, with header)."""
    table = read_text_columns(read_bytes(folder, "bank-full.csv"), COLUMNS, b";", skip=1)
    y = two_classes(table.pop("y"), b"yes")
    return Raw(table, y, None)


BANK = Source(
    name="bank",
    folder="bank_marketing",
    title="Bank marketing, term deposit (without call duration)",
    class_names=("no", "yes"),
    feature_names=ENCODER.features,
    read=read,
    encode=ENCODER,
    public=(
        "level lists of the categorical columns: bank-names.txt",
        "age 18..95, balance -10,000..100,000 euros, at most 60 contacts in a campaign, 900 days "
        "and 300 contacts before it (the data span May 2008 to November 2010): bank-names.txt",
        "reference: a married blue-collar client with a housing loan, called in May; row norms "
        "clipped at 1.75 before scaling: chosen without the rows",
    ),
    unit="one row is one client",
)
