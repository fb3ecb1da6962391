"""The page for a reviewer of a model that was trained on a table."""

import datetime

from noisette.pipeline.effects import column_weights_in, effects_in, note_for, pair_effects_in
from noisette.pipeline.table_words import cost_rows
from noisette.privacy import Ledger
from noisette.report import Subject, model_page
from noisette.tables import TableModel
from noisette.tables.describe import divided
from noisette.tables.folders import takes_tables

__all__ = ["page_of"]


def page_of(
    fitted: TableModel, table: str, records: int | None, ledger: Ledger | None = None,
    folder: str = "FOLDER", date: str = "",
) -> str:  # fmt: skip
    """Return the report of a model whose guarantee speaks of the rows of its table."""
    schema, model = fitted.schema, fitted.model
    stated, learnt = divided(schema)
    subject = Subject(
        title=f"A model that predicts “{schema.target}”",
        unit=schema.protected,
        facts=stated,
        records=records,
        check=f"noisette inspect {folder}",
        steps=cost_rows(model) if takes_tables(model) else (),
        learnt=learnt,
        effects=effects_in(fitted),
        effects_note=note_for(fitted),
        pair_effects=pair_effects_in(fitted),
        scores=getattr(model, "test_", None),
        weights=_weights(fitted),
        table=table,
        schema=schema.fingerprint,
        date=date or datetime.datetime.now(datetime.UTC).date().isoformat(),
    )
    return model_page(fitted.guarantee, subject, ledger)


def _weights(fitted: TableModel) -> list[tuple[str, str, str, str]]:
    """Return (column, cell, what it adds, two deviations of its noise) in words.

    Not of pairs, which may have a thousand cells: `noisette coefficients` lists them.
    """
    found = []
    for row in column_weights_in(fitted):
        values = row["weight"] if isinstance(row["weight"], list) else [row["weight"]]
        noise = "unknown" if row["deviation"] is None else f"± {2.0 * row['deviation']:.2g}"
        adds = ", ".join(f"{value:+.3g}" for value in values)
        found.append((row["column"], row["at"], adds, noise))
    return found
