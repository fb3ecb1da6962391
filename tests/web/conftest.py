"""A studio in an empty folder, and a table in it."""

import pytest
from visitors import Person, write_patients


@pytest.fixture
def person(tmp_path):
    found = Person(tmp_path).come_in()
    yield found
    found.runs.close()


@pytest.fixture
def patients(tmp_path):
    return write_patients(tmp_path / "patients.csv")
