"""Kinds of columns: hats, codes, hashed categories and dates, against hand-made numbers."""

import itertools
import math
from datetime import date, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import assert_one_sentence
from noisette.errors import InvalidParameter
from noisette.tables.cells import TextCells
from noisette.tables.kinds import (
    Categorical,
    Days,
    Hashed,
    Hats,
    Numeric,
    Open,
    View,
    column_of,
)
from noisette.tables.kinds.codes import CodeGroups, check_codes, is_pattern
from noisette.tables.kinds.dates import day_text, days


def filled(column, cells):
    out = np.full((len(cells), len(column.features)), np.nan)
    column.fill(TextCells(cells), out)
    return out


class TestHats:
    def test_by_hand(self):
        column = Hats("age", (20.0, 40.0, 80.0), missing=(999.0,), missing_slot=True)
        assert column.features == ("age ~ 20", "age ~ 40", "age ~ 80", "age is missing")
        found = filled(column, ["-inf", "20", "35", "40", "70", "1e308", "", "999", "x"])
        assert found.tolist() == [
            [1, 0, 0, 0], [1, 0, 0, 0], [0.25, 0.75, 0, 0], [0, 1, 0, 0], [0, 0.25, 0.75, 0],
            [0, 0, 1, 0], [0, 1, 0, 1], [0, 1, 0, 1], [0, 1, 0, 1],
        ]  # fmt: skip

    def test_a_missing_number_counts_as_the_centre(self):
        assert filled(Hats("t", (0.0, 4.0, 8.0), center=1.0), [""]).tolist() == [[0.75, 0.25, 0]]
        assert filled(Hats("t", (0.0, 4.0, 8.0), center=-3.0), [""]).tolist() == [[1, 0, 0]]

    def test_one_knot_is_a_constant_and_no_feature(self):
        assert Hats("t", (3.0,)).features == ()
        only = Hats("t", (3.0,), missing_slot=True)
        assert only.features == ("t is missing",)
        assert filled(only, ["3", "", "7"]).tolist() == [[0], [1], [0]]

    @given(st.lists(st.floats(-1e300, 1e300), min_size=2, max_size=9, unique=True), st.floats())
    def test_hats_add_up_to_one_and_their_squares_to_at_most_one(self, knots, t):
        column = Hats("t", tuple(sorted(knots)))
        row = filled(column, [repr(t)])[0]
        assert (row >= 0.0).all()
        assert row.sum() == pytest.approx(1.0, abs=1e-12)
        assert (row**2).sum() <= column.most_square
        assert np.count_nonzero(row) <= column.nonzeros
        if math.isfinite(t):  # a broken line with those knots is the identity between them
            wanted = min(max(t, min(knots)), max(knots))
            scale = max(map(abs, knots))
            assert row @ (np.sort(knots) / scale) == pytest.approx(wanted / scale, abs=1e-12)

    @pytest.mark.parametrize(
        "knots", [(), (1.0, 1.0), (2.0, 1.0), (0.0, math.nan), (0.0, math.inf), (0.0, 1e301)]
    )
    def test_knots_that_are_none(self, knots):
        with pytest.raises(InvalidParameter, match="column 't': knots must be increasing") as error:
            Hats("t", knots)
        assert_one_sentence(error.value)

    def test_names_of_near_knots_differ(self):
        column = Hats("t", (1.0, 1.0 + 1e-9, 2.0))
        assert len(set(column.features)) == 3


class TestCodes:
    GROUPS = CodeGroups(
        [("390-459", "heart"), ("240-279", "glands"), ("250.*", "sugar"), ("V01-V91", "visit"),
         ("800.5-800.7", "skull"), ("E*", "cause"), ("E95*", "self")]
    )  # fmt: skip

    @pytest.mark.parametrize(
        ("code", "group"),
        [
            ("390", "heart"), ("459", "heart"), ("459.9", "heart"), ("460", None), ("389.9", None),
            ("250", "sugar"), ("250.01", "sugar"), ("251", "glands"), ("2500", None),
            ("V01", "visit"), ("V91.2", "visit"), ("V92", None), ("v05", None), ("41", None),
            ("800.5", "skull"), ("800.7", "skull"), ("800.71", None), ("800", None),
            ("E880", "cause"), ("E950.1", "self"), ("", None), ("-400", None), ("4e2", None),
            ("0400", "heart"), ("nan", None), ("9" * 400, None),
        ],
    )  # fmt: skip
    def test_ranges_and_prefixes(self, code, group):
        assert self.GROUPS.find(code) == group

    def test_the_order_in_which_they_stand_means_nothing(self):
        pairs = [("1-99", "a"), ("10-19", "b"), ("15-16", "c"), ("16.*", "d"), ("165*", "e")]
        cells = ["5", "12", "15", "15.2", "16", "16.5", "165", "99"]
        found = {
            tuple(map(CodeGroups(order).find, cells)) for order in itertools.permutations(pairs)
        }
        assert found == {("a", "b", "c", "c", "d", "d", "e", "a")}

    def test_what_is_a_pattern(self):
        assert all(map(is_pattern, ("1-2", "V1 - V9", "25*", "250.*")))
        assert not any(map(is_pattern, ("a-b", "V1-E9", "9-1", "1-2-3", "x", "")))

    @pytest.mark.parametrize(
        ("patterns", "words"),
        [
            (["1-5", "4-9"], "'1-5' and '4-9' overlap"), (["1-5", "1 - 5"], "overlap"),
            (["1-5", "1.0-5"], "overlap"), (["*"], "ends a prefix"), (["a*b*"], "ends a prefix"),
        ],
    )  # fmt: skip
    def test_faults(self, patterns, words):
        with pytest.raises(InvalidParameter, match=words) as error:
            check_codes(patterns, "column 'icd'")
        assert_one_sentence(error.value)
        check_codes(["1-5", "2-3", "6-9", "V1-V5"], "")

    def test_in_a_column(self):
        column = Categorical(
            "icd", (("heart", ("785",)), ("sugar", ())), "sugar",
            patterns=(("390-459", "heart"), ("250.*", "sugar")),
        )  # fmt: skip
        assert column.features == ("icd=heart", "icd (other)")
        found = filled(column, ["785", " 410.0 ", "250.0", "250", "12", ""])
        assert found.tolist() == [[1, 0], [1, 0], [0, 0], [0, 0], [0, 1], [0, 1]]

    def test_a_list_of_levels_is_taken_by_the_letter(self):
        """Schemas of before have levels such as "18-25" in their lists: they are no ranges."""
        facts = {"young": ["18-25", "x*"], "old": ["26-99"]}
        column = column_of("age", {"kind": "categorical", "groups": facts}, ())
        found = filled(column, ["18-25", "20", "26-99", "x*", "xy"])
        assert found.argmax(axis=1).tolist() == [0, 2, 1, 0, 2]


class TestHashed:
    def test_the_hash_is_public_and_the_same_for_ever(self):
        """A model of today meets the tables of tomorrow: these places must not move."""
        cells = ["1000", "1010", " 1000.0", "Zürich", "", "?"]
        column = Hashed("zip", 1000, 2.0, missing=("?",), missing_slot=True)
        found = filled(column, cells)
        assert np.argmax(found, axis=1).tolist() == [449, 849, 449, 368, 1000, 1000]
        assert (found.sum(axis=1) == 2.0).all()
        assert column.features[:2] == ("zip #0", "zip #1")
        assert column.features[-1] == "zip (missing)"
        bare = filled(Hashed("zip", 8), ["", "1000"])
        assert bare.sum(axis=1).tolist() == [0, 1]

    def test_levels_spread_evenly(self):
        found = filled(Hashed("zip", 16), [str(j) for j in range(16_000)]).sum(axis=0)
        assert ((found - 1000.0) ** 2 / 1000.0).sum() < 45.0  # chi square, 15 degrees: p 1e-4


class TestDates:
    @pytest.mark.parametrize(
        ("text", "day"),
        [
            ("1970-01-01", 0), ("1970-01-02T12:00", 1.5), ("19700103", 2), (" 1970/1/4 ", 3),
            ("1970.01.05", 4), ("06.01.1970", 5), ("6.1.1970 06:00", 5.25),
            ("1970-01-01T01:00:00+01:00", 0), ("1969-12-31", -1), ("1970-01-01 00:00:00", 0),
            ("0001-01-01", -719162), ("9999-12-31", 2932896),
        ],
    )  # fmt: skip
    def test_forms_that_mean_one_day_only(self, text, day):
        assert days(text) == day

    @pytest.mark.parametrize(
        "text",
        ["", "x", "1/2/1970", "01-02-1970", "1970-02-30", "31.02.1970", "32.1.1970", "nan",
         "1970-13-01", "١٩٧٠-01-01", "10000-01-01", "0000-01-01"],
    )  # fmt: skip
    def test_what_is_no_day_is_missing(self, text):
        assert math.isnan(days(text))

    def test_declared_forms(self):
        assert days("2/1/1970", ["%d/%m/%Y"]) == 1
        assert days("1/2/1970", ["%m/%d/%Y"]) == 1
        assert days("1970", ["%d/%m/%Y", "%Y"]) == 0
        assert days("02.1970", ["%m.%Y"]) == 31
        assert math.isnan(days("1970-01-01", ["%d/%m/%Y"]))

    @given(st.dates(), st.sampled_from(["%Y-%m-%d", "%d/%m/%Y", "%Y.%m.%d %H:%M:%S"]))
    def test_every_day_of_the_calendar(self, day, form):
        text = f"{day.year:04}-{day:%m-%d}"
        wanted = (day - date(1970, 1, 1)) / timedelta(days=1)
        assert days(text) == wanted
        assert day_text(wanted) == text
        written = form.replace("%Y", f"{day.year:04}").replace("%m", str(day.month))
        written = written.replace("%d", f"{day.day:02}").replace("%H:%M:%S", "00:00:00")
        assert days(written, [form]) == wanted

    def test_in_a_column(self):
        column = Hats("born", (0.0, 10.0), missing=("9999-12-31",), reading=Days())
        assert column.features == ("born ~ 1970-01-01", "born ~ 1970-01-11")
        found = filled(column, ["1970-01-06", "9999-12-31", "x", "2000-01-01"])
        assert found.tolist() == [[0.5, 0.5], [0, 1], [0, 1], [0, 1]]
        line = Numeric("born", (View(0.0, 10.0),), missing_slot=True, reading=Days())
        assert filled(line, ["1970-01-11", "?"]).tolist() == [[1, 0], [0, 1]]

    def test_numbers(self):
        found = Days().numbers(TextCells(["1970-01-02", "", "1.1.1970"]))
        assert found == pytest.approx([1.0, math.nan, 0.0], nan_ok=True)


def test_an_open_column_encodes_nothing():
    column = Open("age")
    for look in ("features", "nonzeros", "mean_square", "most_square"):
        with pytest.raises(InvalidParameter, match="column 'age' has facts that are still") as e:
            getattr(column, look)
        assert_one_sentence(e.value)
    with pytest.raises(InvalidParameter, match="still to be learnt"):
        column.fill(TextCells(["1"]), np.zeros((1, 1)))
