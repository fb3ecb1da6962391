"""Files that are not what was published: one sentence, which quotes no cell."""

import pytest

from benchmarks.real import DATASETS, load
from benchmarks.real.homes import FILES
from helpers import assert_one_sentence
from noisette.errors import InvalidData

SECRET = b"Smith-4711"
ADULT = b"39, State-gov, %s, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, "
ADULT += b"Male, 2174, 0, 40, United-States, <=50K\n"
CONTENTS = [
    b"",
    b"\n\n",
    b"\x00\x00\x08",
    b"\x00\x00\x08\x03\x00\x00\x00\x02",
    b"junk\n",
    SECRET + b",b,c\n1,2,3\n",
    b"\x1f\x8bxx",
    (ADULT % b"77516" * 5 + ADULT % SECRET).replace(b"39", SECRET),
]


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.filterwarnings("ignore:string or file could not be read:DeprecationWarning")
def test_a_wrong_file_is_named_in_one_sentence(tmp_path, name):
    for content in CONTENTS:
        folder = DATASETS[name].folder
        (tmp_path / folder).mkdir(exist_ok=True)
        for file in FILES[folder]:
            (tmp_path / folder / file.name).write_bytes(content)
        with pytest.raises(InvalidData) as caught:
            load(name, tmp_path)
        assert SECRET.decode() not in str(caught.value)
        assert caught.value.__context__ is None or SECRET.decode() not in str(
            caught.value.__context__
        )
        assert_one_sentence(caught.value)
