"""Bank marketing (``bank-full``), UCI: 45,211 clients, subscribes a term deposit or not.

Row-local and public: column bounds and level lists (``bank-names.txt``), the reference client.
`duration` is known only after the call and is left out. `pdays` = -1 (never contacted before) is
told by `poutcome`, so the number counts from 0. Nothing here adds noise.
"""

from pathlib import Path

from noisette.datasets.base import Raw, Source
from noisette.datasets.encoding import Category, Encoder, Number
from noisette.datasets.files import read_bytes, read_text_columns, two_classes, words

__all__ = ["BANK"]

COLUMNS = words(
    "age job marital education default balance housing loan contact day month duration "
    "campaign pdays previous poutcome y"
)
JOB = words(
    "admin. unknown unemployed management housemaid entrepreneur student blue-collar "
    "self-employed retired technician services"
)
MONTH = words("jan feb mar apr may jun jul aug sep oct nov dec")

ENCODER = Encoder(
    (
        Number("age", 18, 95, zero=40, width=2.0),
        Number("age", 18, 95, zero=40, width=2.0, square=True),
        Number("balance", -10_000, 100_000, zero=500, curve="signed-log1p", width=2.0),
        Number("day", 1, 31, zero=16),
        Number("campaign", 1, 60, zero=1, curve="log1p"),
        Number("pdays", 0, 900, zero=0, curve="log1p"),
        Number("previous", 0, 300, zero=0, curve="log1p"),
        Category.of("job", JOB, "blue-collar"),
        Category.of("marital", ("married", "divorced", "single"), "married", other=False),
        Category.of("education", ("primary", "secondary", "tertiary"), "secondary"),
        Category.of("default", ("yes", "no"), "no", other=False),
        Category.of("housing", ("yes", "no"), "yes", other=False),
        Category.of("loan", ("yes", "no"), "no", other=False),
        Category.of("contact", ("unknown", "telephone", "cellular"), "cellular", other=False),
        Category.of("month", MONTH, "may", other=False),
        Category.of("poutcome", ("unknown", "other", "failure", "success"), "unknown", other=False),
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
