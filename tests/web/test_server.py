"""The server: this machine only, a port in use, an extra that is missing."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers import mistake
from noisette.app.studio import server
from noisette.errors import InvalidParameter


def test_it_is_bound_to_this_machine_only():
    made = server._bound(0)
    try:
        assert made.getsockname()[0] == "127.0.0.1"
        with pytest.raises(InvalidParameter, match="cannot be used"):
            server._bound(made.getsockname()[1])
    finally:
        made.close()


def test_a_port_in_use_a_wrong_port_and_a_missing_folder_are_one_sentence(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = mistake("studio", tmp_path, "--no-browser", "--port", port)
        assert f"port {port} of this machine cannot be used" in said
    assert "between 0 and 65535" in mistake("studio", tmp_path, "--port", 70000)
    assert "there is no folder" in mistake("studio", tmp_path / "nowhere")


def test_the_key_is_in_no_command_that_others_can_list(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(server, "_run", lambda made, *_: (time.sleep(0.3), made.close()))
    monkeypatch.setattr(server.webbrowser, "open", lambda url: opened.append(_seen(url)))
    said = []
    server.serve(tmp_path, say=said.append)
    (url, text, mode), token = opened[0], said[0].split("token=")[1]
    assert token not in url
    assert token in text
    assert mode & 0o077 == 0  # nobody else may enter the folder
    assert not Path(url.removeprefix("file://")).exists()  # and it goes with the studio


def _seen(url):
    page = Path(url.removeprefix("file://"))
    return url, page.read_text(), page.parent.stat().st_mode


def test_a_missing_extra_is_one_sentence(tmp_path):
    """And so no other command loads the page."""
    code = (
        "import sys\n"
        "for name in ('starlette', 'uvicorn', 'jinja2', 'python_multipart'):\n"
        "    sys.modules[name] = None\n"
        f"sys.argv = ['noisette', 'studio', {str(tmp_path)!r}]\n"
        "from noisette.app.commands import main\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.strip().endswith("pip install 'noisette[web]'.")
    assert done.stderr.count("\n") == 1
