"""Downloads: a local server with every fault, atomic files, checksums. No network is used."""

import gzip
import hashlib
import http.server
import io
import os
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import real as datasets
from benchmarks.real import VARIABLE, MissingData, download, load
from benchmarks.real.fetch import download_files
from benchmarks.real.homes import FILES, Home, PublishedFile
from noisette.errors import InvalidData, InvalidParameter

HOME = os.environ.get(VARIABLE)
ROWS = b"39, State-gov, <=50K\n" * 200
OTHER = b"40, State-gov, >50K \n" * 200
SUM = hashlib.sha256(ROWS).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """Serves `answers` by path: bytes, or a pair (bytes to send, length to promise)."""

    answers: dict[str, bytes | tuple[bytes, int]]
    asked: list[str]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        self.server.asked.append(self.path)
        answer = self.server.answers.get(self.path)
        if self.path == "/nonsense":
            self.wfile.write(b"this is not HTTP\r\n\r\n")
            return
        if answer is None:
            self.send_error(404)
            return
        body, length = answer if isinstance(answer, tuple) else (answer, len(answer))
        self.send_response(200)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server(("127.0.0.1", 0), Handler)
    running.answers, running.asked = {}, []
    thread = threading.Thread(target=running.serve_forever, args=(0.02,))
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


def zipped(name: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return out.getvalue()


def publish(monkeypatch: pytest.MonkeyPatch, *homes: Home, form: str = "text") -> None:
    """Let dataset folder 'adult' consist of the one file 'adult.data' with content ROWS."""
    expected = ROWS.partition(b"\n")[2] if form == "rows" else ROWS
    file = PublishedFile(
        "adult.data", len(ROWS), hashlib.sha256(expected).hexdigest(), homes, form=form
    )
    monkeypatch.setitem(FILES, "adult", (file,))


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


@pytest.mark.parametrize(
    ("answer", "members", "name"),
    [
        (ROWS, (), "adult.data"),
        (ROWS.replace(b"\n", b"\r\n"), (), "adult.data"),
        (gzip.compress(ROWS), (), "adult.data.gz"),
        (gzip.compress(ROWS.replace(b"\n", b"\r\n")), (), "adult.data"),
        (zipped("adult.data", ROWS), ("adult.data",), "adult.data"),
        (zipped("a.zip", zipped("adult.data", ROWS)), ("a.zip", "adult.data"), "adult.data"),
        (zipped("adult.data.gz", gzip.compress(ROWS)), ("adult.data.gz",), "adult.data"),
    ],
    ids=["plain", "crlf", "gzip", "gzip-crlf", "zip", "zip-in-zip", "gzip-in-zip"],
)
def test_every_packaging_gives_the_same_rows(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: bytes,
    members: tuple[str, ...],
    name: str,
) -> None:
    publish(monkeypatch, Home(f"{server.address}/file", members))
    server.answers["/file"] = answer
    assert download("adult", tmp_path) == [tmp_path / "adult" / name]
    stored = content(tmp_path / "adult")
    assert list(stored) == [name]
    # A gzip that was published so is kept to the byte; everything else is stored as plain text.
    assert stored[name] == (answer if name.endswith(".gz") else ROWS)
    lines: list[str] = []
    download("adult", tmp_path, say=lines.append)
    assert server.asked == ["/file"], "a file that is there and right is not asked for again"
    assert lines == ["adult/adult.data: already there, checksum right"]


@pytest.mark.parametrize(
    ("answer", "members", "reason"),
    [
        (OTHER, (), "SHA-256 .* instead of"),
        (ROWS[:-1], (), "SHA-256"),
        (gzip.compress(ROWS)[:-40], (), "gzip file is damaged"),
        (gzip.compress(ROWS * 5), (), "longer than the published"),
        (ROWS, ("adult.data",), "not a zip archive"),
        (zipped("other", ROWS), ("adult.data",), "no readable member 'adult.data'"),
        (b"<html>please log in</html>", (), "SHA-256"),
    ],
    ids=["other", "short", "torn-gzip", "bomb", "no-zip", "no-member", "portal"],
)
def test_a_wrong_answer_is_deleted_and_said(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: bytes,
    members: tuple[str, ...],
    reason: str,
) -> None:
    publish(monkeypatch, Home(f"{server.address}/file", members))
    server.answers["/file"] = answer
    with pytest.raises(InvalidData, match=f"deleted and nothing was installed: .*{reason}"):
        download("adult", tmp_path)
    assert content(tmp_path / "adult") == {}


def test_the_next_home_is_tried(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("absent", "nonsense", "short", "wrong", "right")
    homes = [Home(f"{server.address}/{name}") for name in names]
    publish(monkeypatch, *homes)
    server.answers |= {"/short": (ROWS[:100], len(ROWS)), "/wrong": OTHER, "/right": ROWS}
    download("adult", tmp_path)
    assert content(tmp_path / "adult") == {"adult.data": ROWS}
    assert server.asked == [f"/{name}" for name in names]


def test_no_network_is_one_clear_sentence(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(monkeypatch, Home(f"{server.address}/absent"), Home("http://127.0.0.1:1/refused"))
    with pytest.raises(MissingData, match=r"'adult\.data' could not be downloaded") as caught:
        download("adult", tmp_path)
    text = str(caught.value)
    assert "/absent (Not Found)" in text
    assert "refused" in text
    assert str(tmp_path / "adult") in text
    assert "\n" not in text
    assert content(tmp_path / "adult") == {}


def test_a_mirror_comes_first_and_need_not_be_trusted(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(monkeypatch, Home(f"{server.address}/home"))
    server.answers |= {"/m/adult/adult.data.gz": gzip.compress(OTHER), "/m/adult/adult.data": ROWS}
    download("adult", tmp_path, mirror=f"{server.address}/m/")
    assert server.asked == ["/m/adult/adult.data.gz", "/m/adult/adult.data"]
    assert content(tmp_path / "adult") == {"adult.data": ROWS}
    with pytest.raises(InvalidParameter, match="mirror must start with http"):
        download("adult", tmp_path, mirror="file:///etc")


def test_somebody_elses_file_is_never_overwritten(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(monkeypatch, Home(f"{server.address}/file"))
    server.answers["/file"] = ROWS
    (tmp_path / "adult").mkdir()
    (tmp_path / "adult" / "adult.data").write_bytes(OTHER)
    with pytest.raises(InvalidData, match=r"adult\.data' is not the published file"):
        download("adult", tmp_path)
    assert content(tmp_path / "adult") == {"adult.data": OTHER}
    assert server.asked == []


def test_a_header_may_differ_where_editions_do(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(monkeypatch, Home(f"{server.address}/file"), form="rows")
    edition = b"ID,X1,Y\r\n" + ROWS.partition(b"\n")[2].replace(b"\n", b"\r\n")
    server.answers["/file"] = edition
    download("adult", tmp_path)
    assert content(tmp_path / "adult") == {"adult.data": edition.replace(b"\r\n", b"\n")}


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_disk_fault_leaves_nothing_behind(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    publish(monkeypatch, Home(f"{server.address}/file"))
    server.answers["/file"] = ROWS

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(MissingData, match="cannot be written: No space left on device"):
        download("adult", tmp_path)
    assert content(tmp_path / "adult") == {}


def test_a_kill_leaves_nothing_that_a_reader_would_take(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(monkeypatch, Home(f"{server.address}/file"))
    server.answers["/file"] = ROWS

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            download("adult", tmp_path)
    assert content(tmp_path / "adult") == {}


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(MissingData, match="cannot be made"):
        download("adult", tmp_path / "file")


def test_data_home_beats_the_variable_and_one_is_needed(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(monkeypatch, Home(f"{server.address}/file"))
    server.answers["/file"] = ROWS
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(InvalidParameter, match="data_home must name a folder"):
        download("adult")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "variable"))
    download("adult", tmp_path / "argument")
    assert not (tmp_path / "variable").exists()
    download("adult")
    assert (tmp_path / "variable" / "adult" / "adult.data").is_file()
    with pytest.raises(InvalidParameter, match="name must be one of"):
        download("nonsense", tmp_path)


def test_load_downloads_only_when_asked(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = b"ID" + b",X" * 24 + b"\n" + b"1,20000,2,2,1,24" + b",0" * 18 + b",1\n" * 1
    rows += b"2,90000,1,2,2,34" + b",0" * 18 + b",0\n"
    file = PublishedFile(
        "UCI_Credit_Card.csv",
        len(rows),
        hashlib.sha256(rows.partition(b"\n")[2]).hexdigest(),
        (Home(f"{server.address}/data.csv"),),
        "rows",
    )
    monkeypatch.setitem(FILES, "credit_default", (file,))
    server.answers["/data.csv"] = rows
    with pytest.raises(MissingData, match=r"fetch them from http.*benchmarks\.real\.download"):
        load("credit", tmp_path)
    assert server.asked == []
    with pytest.raises(InvalidParameter, match="split must be one of"):
        load("credit", tmp_path, split="half", download=True)
    with pytest.raises(InvalidParameter, match="download must be True or False"):
        load("credit", tmp_path, download="yes")  # type: ignore[arg-type]
    assert server.asked == []
    assert len(load("credit", tmp_path, download=True).X) == 2
    assert len(load("credit", tmp_path).X) == 2
    assert server.asked == ["/data.csv"]


def test_a_missing_or_damaged_file_names_its_home(tmp_path: Path) -> None:
    (tmp_path / "adult").mkdir()
    with pytest.raises(MissingData, match=r"archive\.ics\.uci\.edu/.*/adult\.data") as caught:
        load("adult", data_home=tmp_path)
    assert str(tmp_path / "adult") in str(caught.value)
    (tmp_path / "adult" / "adult.data.gz").write_bytes(gzip.compress(ROWS)[:-30])
    with pytest.raises(InvalidData, match="damaged gzip"):
        load("adult", data_home=tmp_path)


def test_every_dataset_has_homes_in_a_readable_table() -> None:
    assert {source.folder for source in datasets.DATASETS.values()} == set(FILES)
    for files in FILES.values():
        for file in files:
            assert len(bytes.fromhex(file.sha256)) == 32
            assert file.homes
            assert all(home.url.startswith(("https://", "http://")) for home in file.homes)


@pytest.mark.skipif(not HOME, reason=f"real data: set {VARIABLE}")
@pytest.mark.parametrize("folder", FILES)
def test_the_published_files_have_the_checksums_of_the_table(folder: str) -> None:
    lines: list[str] = []
    assert HOME
    download_files(folder, Path(HOME), say=lines.append)
    assert lines == [f"{folder}/{f.name}: already there, checksum right" for f in FILES[folder]]


@pytest.mark.skipif(not HOME, reason=f"real data: set {VARIABLE}")
def test_the_csv_edition_of_uci_has_the_same_rows() -> None:
    """Rebuild UCI's data.csv from our rows: its published SHA-256 comes out."""
    assert HOME
    ours = gzip.decompress((Path(HOME) / "credit_default" / "UCI_Credit_Card.csv.gz").read_bytes())
    header = ",".join(["ID", *(f"X{k}" for k in range(1, 24)), "Y"]).encode()
    edition = (header + b"\n" + ours.partition(b"\n")[2]).replace(b"\n", b"\r\n")
    assert len(edition) == 2_897_080
    assert hashlib.sha256(edition).hexdigest() == (
        "45bcf4df62ff2e237a74eb155cabfb4bbbc171219a0637daef44fdad07503dd0"
    )
    assert FILES["credit_default"][0].digest(edition) == FILES["credit_default"][0].sha256
