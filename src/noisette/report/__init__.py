"""The page for a reviewer: one self-contained HTML file about a guarantee or a ledger.

No script, no font, no picture is fetched: the page says the same without a network, on paper and
on a telephone. Everything that comes from a file is escaped.
"""

from noisette.report.numbers import attack_power, curve_of, noise_of
from noisette.report.page import Subject, ledger_page, model_page
from noisette.report.proofs import meaning

__all__ = [
    "Subject",
    "attack_power",
    "curve_of",
    "ledger_page",
    "meaning",
    "model_page",
    "noise_of",
]
