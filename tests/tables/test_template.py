"""`noisette schema` looks at names and types only: the same header gives the same template."""

import tomllib
from pathlib import Path

import pytest

from noisette.errors import InvalidData, InvalidParameter
from noisette.tables import Schema, template


def write(tmp_path, content, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(content)
    return path


def test_not_a_byte_after_the_header_matters(tmp_path):
    head = b'age,"first\nname",<b>,ill\n'
    bodies = (b"", b"1,Smith,x,no\n", b"\xff\xfe\x00\n\n,,,,,,,,", b'"never closed', b"9" * 100_000)
    texts = {template(write(tmp_path, head + body)) for body in bodies}
    assert len(texts) == 1
    found = tomllib.loads(texts.pop())
    assert list(found["columns"]) == ["age", "first\nname", "<b>", "ill"]
    assert all(facts == {"kind": "?"} for facts in found["columns"].values())


def test_a_template_is_refused_until_it_is_filled(tmp_path):
    text = template(write(tmp_path, b"age,ill\n1,no\n"), "ill")
    node = tomllib.loads(text)
    assert node["target"] == "ill"
    assert list(node["columns"]) == ["age"]
    with pytest.raises(InvalidParameter, match="classes is still to be filled in"):
        Schema.from_dict(node)
    node["classes"] = ["no", "yes"]
    with pytest.raises(InvalidParameter, match="column 'age': kind is still to be filled in"):
        Schema.from_dict(node)
    node["columns"]["age"] = {"kind": "numeric", "low": 0, "high": 100}
    with pytest.raises(InvalidParameter, match="unit is still to be filled in"):
        Schema.from_dict(node)
    node["unit"] = "one row is one visit"
    assert Schema.from_dict(node).features == ("age",)


@pytest.mark.parametrize(
    ("head", "delimiter"),
    [(b"a,b,c\n", ","), (b"a;b;c\n", ";"), (b"a\tb\tc\n", "\t"), (b"a|b,x|c\n", "|")],
)
def test_the_separator_of_the_header(tmp_path, head, delimiter):
    node = tomllib.loads(template(write(tmp_path, head)))
    assert node.get("file", {"delimiter": ","})["delimiter"] == delimiter
    assert len(node["columns"]) == 3


def test_a_column_without_a_name(tmp_path):
    node = tomllib.loads(template(write(tmp_path, b",age\n0,41\n")))
    assert list(node["columns"]) == ["", "age"]


def test_without_a_header_not_a_cell_is_shown(tmp_path):
    text = template(write(tmp_path, b"Smith,41,ill\n"), header=False)
    assert "Smith" not in text
    assert "41" not in text
    assert tomllib.loads(text)["file"]["names"] == ["column_1", "column_2", "column_3"]


def test_faults(tmp_path):
    for content, words in [
        (b"", "is empty"), (b"a,a\n", "two columns named 'a'"), (b"\xff\xff\n", "cannot be read"),
        (b'"a"b,c\n', "cannot be read"), (b"x" * (1 << 21), "cannot be read"),
    ]:  # fmt: skip
        with pytest.raises(InvalidData, match=words):
            template(write(tmp_path, content))
    with pytest.raises(InvalidParameter, match="no column 'z' to be the target"):
        template(write(tmp_path, b"a,b\n"), "z")
    path = write(tmp_path, "größe,b\n".encode("latin-1"))
    assert "größe" in template(path, encoding="latin-1")
    with pytest.raises(InvalidParameter, match="encoding must be a name"):
        template(path, encoding="?")


def test_a_name_of_the_file_stays_in_its_comment(tmp_path):
    path = write(tmp_path, b"a,b\n", "x\nkind = 3.csv")
    assert "kind = 3.csv" not in template(path).splitlines()
    tomllib.loads(template(path))


def test_parquet_types_and_no_values(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    def write_table(ages, names):
        columns = {
            "age": pa.array(ages), "name": pa.array(names).dictionary_encode(),
            "smokes": [True, False], "born": pa.array([1, 2], pa.date32()),
            "tags": [["a"], ["b"]], "ill": ["no", "yes"],
        }  # fmt: skip
        parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
        return template(tmp_path / "t.parquet", "ill")

    text = write_table([41, 57], ["Smith", "Jones"])
    assert text == write_table([0, 1], ["x", "y"])
    for value in ("41", "57", "Smith", "Jones"):
        assert value not in text
    columns = tomllib.loads(text)["columns"]
    assert columns["age"] == {"kind": "numeric", "low": "?", "high": "?"}
    assert columns["name"] == {"kind": "categorical", "categories": ["?"]}
    assert columns["smokes"] == {"kind": "categorical", "categories": [False, True]}
    assert columns["born"] == columns["tags"] == {"kind": "ignore"}
    with pytest.raises(InvalidParameter, match="--no-header is for CSV"):
        template(tmp_path / "t.parquet", header=False)


def test_semicolons_suggest_decimal_commas(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x;ill\n1,5;no\n")
    assert '# decimal = ","' in template(path)
    path.write_text("x,ill\n1.5,no\n")
    assert "decimal" not in template(path)


def test_a_number_to_predict_finds_its_way(tmp_path: Path) -> None:
    """The line that the template offers for a number is a target; both refusals name it too."""
    table = tmp_path / "stays.csv"
    table.write_text("age,days\n31,4\n")
    text = template(table, "days", learn=True)
    (line,) = [each[2:] for each in text.splitlines() if each.startswith("# target = {")]
    kept = [each for each in text.splitlines() if not each.startswith(("target =", "classes ="))]
    filled = "\n".join([line, *kept]).replace('kind = "?"', 'kind = "numeric"')
    node = tomllib.loads(filled.replace('unit = "?"', 'unit = "one stay"'))
    assert Schema.from_dict(node, learn=True).target_bounds == (None, None)
    for classes in ({}, {"classes": ["?"]}):
        with pytest.raises(InvalidParameter, match=r'a number to predict .* kind = "numeric"'):
            Schema.from_dict({**node, "target": "days", **classes}, learn=True)
