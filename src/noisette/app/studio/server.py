"""The server: one port of 127.0.0.1, one address with a key in it, one polite end."""

import contextlib
import importlib
import socket
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path

import uvicorn

from noisette import _files
from noisette.app.commands.console import as_ctrl_c
from noisette.app.studio.guard import Keys
from noisette.errors import InvalidParameter

HOME = "127.0.0.1"
"""The only address that is ever listened at: no other machine can reach it."""

_PAUSE = 2.0  # seconds before modules of later steps are loaded: the first page comes first


def _bound(port: int) -> socket.socket:
    """Return a socket at a port of this machine; 0 takes any that is free."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":  # there it would let two programs share a port
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((HOME, port))
        made.listen(64)
    except OSError as error:
        made.close()
        raise InvalidParameter(
            f"port {port} of this machine cannot be used ({error.strerror}); give another --port, "
            "or none."
        ) from None
    return made


def serve(
    folder: Path, *, port: int = 0, browser: bool = True,
    say: Callable[[str], object] = print,
) -> None:  # fmt: skip
    """Serve the studio until it is stopped."""
    keys, made = Keys(), _bound(port)
    host = f"{HOME}:{made.getsockname()[1]}"
    address = f"http://{host}/?token={keys.token}"
    say(address)
    with tempfile.TemporaryDirectory(prefix="noisette-") as private:  # nobody else may enter it
        if browser:  # by a file that only this person can read: others can list our processes
            page = Path(private) / "studio.html"
            way = f'<meta http-equiv="refresh" content="0; url={address}">'
            _files.write(page, f"<!doctype html><title>noisette</title>{way}")
            threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
        _run(made, folder, keys, host, say)


def _run(
    made: socket.socket, folder: Path, keys: Keys, host: str, say: Callable[[str], object]
) -> None:
    """Answer requests until the end; then end what is under way."""
    # imported late: a browser needs a second to come up, and waits for the answer
    from noisette.app.studio.app import application

    app, runs = application(folder, keys, host)
    server = uvicorn.Server(
        uvicorn.Config(app, log_level="critical", access_log=False, server_header=False,
                       date_header=False, lifespan="off", timeout_graceful_shutdown=3)
    )  # fmt: skip
    # what step 3 needs is imported while the first page is read
    warm = threading.Timer(_PAUSE, importlib.import_module, ("noisette.tables.pipeline",))
    warm.daemon = True
    warm.start()
    try:
        # `kill` and a closed terminal, too: a training under way is then ended politely
        with contextlib.suppress(KeyboardInterrupt), as_ctrl_c():
            server.run(sockets=[made])
    finally:
        warm.cancel()
        made.close()
        last = runs.close()
        if last:
            say(last)
