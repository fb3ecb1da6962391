"""Names as an attacker or a careless export would write them, and pages full of them."""

import numpy as np

from noisette import Ledger
from noisette.audit import AuditReport, Finding
from noisette.audit.page import html as audit_page
from noisette.core import mechanisms, plans
from noisette.core.guarantee import Guarantee
from noisette.report import Effect, Subject, effects_page, ledger_page, model_page
from noisette.scores import BinaryScores

NAMES = {
    "script": "<script>document.title='broken'</script><img src=x onerror=console.error(1)>",
    "quotes": '"\'`&quot;&#39; onmouseover=alert(1) x="</style></title><!--',
    "direction": "abc\u202egnp.exe\u2066\u200f שלום مرحبا",
    "emoji": "👩‍👩‍👧‍👦 🏥 é\u0301",
    "long": "w" * 300,
}


def effects(name):
    return [
        Effect(name, [name, "2", "3"], [[0.1, -0.2, 0.3]], [1.0, 2.0, 3.0], [0.1, 0.1, 0.1]),
        Effect(name, [name, "b"], [[0.1, -0.2], [0.3, 0.4]], outputs=[name, "y"], unit=name),
    ]


def scores(name):
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 2, 3000)
    said = np.clip(0.25 + 0.5 * labels + generator.normal(0, 0.2, 3000), 0.01, 0.99)
    return BinaryScores.of([name, f"{name}!"], np.round(said, 2), labels)


def pages(name):
    """Return every kind of page with the name wherever a name can stand."""
    plan = plans.Run(mechanisms.SphericalLaplace(2.0, 5)).under("replace-one")
    promise = Guarantee(
        1.0, 0.0, plan, name, public=(name,), notes=(name,), proofs=(name,), numeric_model=name
    )
    ledger = Ledger(epsilon=3.0, table=name)
    ledger.charge(mechanisms.Laplace.calibrated(0.5), label=name)
    other = Ledger(epsilon=3.0)
    other.charge(mechanisms.Laplace.calibrated(0.5), label="plain")
    three = [(name, name, name)]
    subject = Subject(
        name, name, three, 1000, name, steps=[(name, name, "5 %", "0.1")], learnt=three,
        effects=effects(name), effects_note=name, scores=scores(name),
        weights=[(name, name, "+1", "± 1")], table=name, schema=name, date=name,
    )  # fmt: skip
    findings = (
        Finding(name, (1.0, 1e-6), 1.8, 0.99, "violated", 400, name),
        Finding("another", (1.0, 1e-6), None, 1.0, "consistent", 1, name),
    )
    return {
        "model": model_page(promise, subject, ledger),
        "ledger": ledger_page(ledger, name, name),
        "audit": audit_page(AuditReport(name, findings), promise),
        "effects": effects_page(name, effects(name), name),
    }
