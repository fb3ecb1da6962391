"""The audit target: the ledger that counts, the permit that allows, the door that adds noise."""

from noisette.privacy.door import NoiseStream, release
from noisette.privacy.ledger import Ledger
from noisette.privacy.permit import Permit
from noisette.privacy.search import LentLedger, best_run

__all__ = ["Ledger", "LentLedger", "NoiseStream", "Permit", "best_run", "release"]
