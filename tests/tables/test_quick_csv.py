"""pyarrow against the standard library: the same cells, and the same refusals, of hostile files."""

import csv
import gzip
import io
import math
import random
import string

import numpy as np
import pytest

from noisette.errors import InvalidData, NoisetteError
from noisette.tables import quick_csv, reading
from noisette.tables.file_facts import FileFacts

pytest.importorskip("pyarrow")

NAMES = ["a", "b", "c"]
PLAIN = FileFacts()
SECRET = "Smith-4711"


class Plain:
    """What the standard library makes of lines, without any of the package's own code."""

    encoding = "utf-8"

    def __init__(self, raw, encoding, longest):
        held = io.BytesIO(raw.read())
        self._text, self._longest = io.TextIOWrapper(held, encoding, newline=""), longest

    def __iter__(self):
        while line := self._text.readline(self._longest):
            if len(line) >= self._longest:
                raise csv.Error
            yield line


def read(path, facts, header, numbers, monkeypatch, *, quick: bool, names=NAMES):
    """Return the cells of a file, or the sentence with which it is refused."""
    with monkeypatch.context() as patch:
        if not quick:
            patch.setattr(reading, "_has_arrow", lambda: False)
            patch.setattr(reading, "CsvLines", Plain)
        found = {name: [] for name in names}
        try:
            for piece in reading.pieces(path, facts, list(names), header, numbers):
                for name in names:
                    cells = piece[name]
                    found[name] += (
                        cells.numbers().tolist() if name in numbers else list(cells.texts())
                    )
        except NoisetteError as error:
            return type(error).__name__, str(error)
    return found


def alike(path, monkeypatch, facts=PLAIN, header=None, numbers=(), names=NAMES, *, words=2):
    slow, quick = (
        read(path, facts, header, numbers, monkeypatch, quick=quick, names=names)
        for quick in (False, True)
    )
    if isinstance(slow, tuple) or isinstance(quick, tuple):
        assert not any(SECRET in sentence for _, sentence in (slow, quick))
        assert slow[:words] == quick[:words]  # of several faults, either may be found first
        return slow
    for name in names:
        if name in numbers:  # to the bit, the sign of zero included
            np.testing.assert_array_equal(
                np.array(slow[name]).view(np.int64), np.array(quick[name]).view(np.int64)
            )
        else:
            assert slow[name] == quick[name]
    return quick


HOSTILE = {
    "plain": b"a,b,c\n1,x,2.5\n3,y,4\n",
    "no end": b"a,b,c\n1,x,2.5",
    "windows": b"a,b,c\r\n1,x,2.5\r\n\r\n3,y,4\r\n",
    "old mac": b"a,b,c\r1,x,2\r3,y,4\r",
    "mac header": b"a,b,c\r1,x,2\n3,y,4\n",
    "lone return": b"a,b,c\n1,x\r,2\n3,y,4\n",
    "empty lines": b"\n\na,b,c\n\n1,x,2\n\n\n3,y,4\n\n",
    "blank line": b"a,b,c\n1,x,2\n   \n3,y,4\n",
    "only a header": b"a,b,c\n",
    "blanks": b"a, b, c\n1,  x y , 2\n 3,y, 4 \n",
    "quotes": b'"a","b","c"\n"1","x,""z""","2"\n"3","","4"\n',
    "quoted line break": b'a,b,c\n1,"x\ny",2\n3,"y\r\nz",4\n5,w,6\n',
    "blank before quote": b'a,b,c\n1, "x,y",2\n',
    "quote inside": b'a,b,c\n1,x"y,2\n3,"z",4\n',
    "quote unclosed": b'a,b,c\n1,"x,2\n3,y,4\n',
    "text after quote": b'a,b,c\n1,"x"y,2\n',
    "quotes of three": b'a,b,c\n1,"""x""",2\n3,"""",4\n',
    "too many": b"a,b,c\n1,x,2,9\n",
    "too few": b"a,b,c\n1,x\n",
    "ragged late": b"a,b,c\n" + b"1,x,2\n" * 9000 + b"1,Smith-4711\n",
    "nul": b"a,b,c\n1,x\0y,2\n",
    "not utf-8": b"a,b,c\n1,Smith-4711\xff,2\n",
    "not utf-8 in another column": b"a,b,c,d\n1,x,2,\xff\xfe\n",
    "mark": b"\xef\xbb\xbfa,b,c\n1,x,2\n",
    "mark later": b"a,b,c\n1,\xef\xbb\xbfx,2\n",
    "letters": "a,b,c\n1,äß€\u2028\u00a0x,2\n".encode(),
    "long cell": b"a,b,c\n1," + b"x" * 140_000 + b",2\n",
    "long line of short cells": b"a,b,c\n1," + b"x" * 131_000 + b",2.5\n",
    "nothing": b"",
}
NUMBERS = [
    "1", "-1.5", "+2", "1e5", "1E-5", ".5", "5.", "1_000", " 7 ", "\t8", "nan", "NaN", "-nan",
    "inf", "-Infinity", "nan(7)", "1e999", "-1e999", "1e-400", "0x10", "1,5", "١٢", "\u00a09", "-0",
    "-0.0",
    "", " ", "NA", "N/A", "?", "None", "true", "TRUE", "1.5.2", "--1", "1e", "e5", "infinit", "1f",
    "0.1", "123456789012345678901234567890", "2.2250738585072011e-308", "9007199254740993",
    "0.30000000000000004", "179769313486231580793e289", "1d5", "1 000", "1'000", "12,345", "5e-324",
]  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files_are_read_alike(tmp_path, monkeypatch, kind, packed):
    content = HOSTILE[kind]
    path = tmp_path / "t.csv"
    path.write_bytes(gzip.compress(content) if packed else content)
    for numbers in ((), ("a", "c")):
        for header in (None, NAMES):
            try:
                alike(path, monkeypatch, header=header, numbers=numbers)
            except KeyError:  # the file names no such columns; callers check that before
                continue


@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("thousands", ["", "'", " "])
def test_every_number_is_read_alike(tmp_path, monkeypatch, decimal, thousands):
    facts = FileFacts(delimiter=";", decimal=decimal, thousands=thousands)
    path = tmp_path / "t.csv"
    for shown in NUMBERS:  # alone, so that none is hidden by what another one does to its column
        path.write_text(f"a;b;c\n1{decimal}25;x;{shown}\n2;y;{shown}\n", newline="")
        alike(path, monkeypatch, facts, numbers=("a", "c"))
    lines = [f"{i}{decimal}5;x;{shown}" for i, shown in enumerate(NUMBERS * 3)]
    path.write_text("\n".join(["a;b;c", *lines]) + "\n", newline="")
    found = alike(path, monkeypatch, facts, numbers=("a", "c"))
    assert found["a"][7] == 7.5


@pytest.mark.parametrize(
    "encoding", ["latin-1", "cp1252", "utf-8-sig", "ascii", "shift_jis", "u8", "iso2022_jp"]
)
def test_encodings(tmp_path, monkeypatch, encoding):
    path = tmp_path / "t.csv"
    for text in ("plain", "äöü", "naïve €", "日本"):
        path.write_bytes(f"a,b,c\n1,{text},2\n".encode(encoding, "replace"))
        alike(path, monkeypatch, FileFacts(encoding=encoding), numbers=("a",))
    path.write_bytes("a,b,c\n1,ä€,2\n".encode())
    alike(path, monkeypatch, FileFacts(encoding=encoding), numbers=("a",))


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", " ", "é"])
def test_delimiters(tmp_path, monkeypatch, delimiter):
    path = tmp_path / "t.csv"
    path.write_text(delimiter.join(NAMES) + f"\n1{delimiter}x y{delimiter}2\n")
    alike(path, monkeypatch, FileFacts(delimiter=delimiter), numbers=("a",))


def test_random_files_in_small_chunks(tmp_path, monkeypatch):
    """Records that straddle chunks, of the signs that matter; 400 files, each read both ways."""
    signs = ['"', '""', ",", "\n", "\r\n", "\r", " ", "x", "1", "1.5", "é", "\0"]
    odds = [3, 1, 12, 4, 2, 0.3, 1, 8, 8, 4, 1, 0.1]
    rng, path = random.Random(5), tmp_path / "t.csv"
    read_whole = 0
    for _ in range(400):
        monkeypatch.setattr(quick_csv, "_CHUNK", rng.choice([7, 16, 64]))
        weights = [o if rng.random() < 0.7 else 0.0 for o in odds]
        rows = []
        for _ in range(rng.randrange(1, 30)):
            if rng.random() < 0.03:
                rows.append("".join(rng.choices(signs, [w + 1e-9 for w in weights], k=9)) + "\n")
            quoted = rng.random() < 0.3
            cell = rng.choice(["x", "é,z", 'q""q', "1.5", "", " y", "line\nbreak"])
            cell = f'"{cell}"' if quoted else cell.replace(",", "").replace("\n", "")
            rows.append(f"{rng.choice(['1', '2.5', 'NA', ''])},{cell},7\n")
        path.write_bytes(("a,b,c\n" + "".join(rows)).encode())
        read_whole += isinstance(alike(path, monkeypatch, numbers=("a", "c"), words=1), dict)
    assert read_whole > 100


def test_a_large_file_goes_through_both_readers(tmp_path, monkeypatch):
    """Quick chunks around slow ones: nothing is lost or read twice at the seams."""
    path, rng = tmp_path / "t.csv", random.Random(1)
    with path.open("w", newline="") as file:
        file.write("a,b,c\n")
        for i in range(20_000):
            text = "".join(rng.choices(string.ascii_letters, k=3))
            text = f'"{text}\n{text}"' if i % 5003 == 0 else text
            file.write(f"{i},{text},{i / 7}\n")
    monkeypatch.setattr(quick_csv, "_CHUNK", 1 << 15)
    found = alike(path, monkeypatch, numbers=("a", "c"))
    assert found["a"] == list(range(20_000))
    slow = []
    real = reading._slow_pieces
    monkeypatch.setattr(reading, "_slow_pieces", lambda *given: slow.append(1) or real(*given))
    list(reading.pieces(path, FileFacts(), NAMES, None, ("a", "c")))
    assert 3 <= len(slow) <= 5


def test_a_refusal_shows_no_cell(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_bytes(HOSTILE["ragged late"])
    with pytest.raises(InvalidData) as error:
        list(reading.pieces(path, FileFacts(), NAMES, None, ("a",)))
    shown = "".join(map(str, (error.value, error.value.__context__, error.value.__cause__)))
    assert SECRET not in shown
    assert math.isfinite(len(shown))


def test_a_mark_before_a_cell_is_part_of_it_wherever_it_stands(tmp_path, monkeypatch):
    """pyarrow drops it in what it is handed first: then a row would depend on those before it."""
    for rows in (["\ufeff5,x,y"], ["1,x,y", "\ufeff5,x,y"]):
        path = tmp_path / "t.csv"
        path.write_text("\n".join(["a,b,c", *rows, ""]), encoding="utf-8")
        found = read(path, PLAIN, None, ["a"], monkeypatch, quick=True)
        assert math.isnan(found["a"][-1])
