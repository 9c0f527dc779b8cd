"""Are amounts read as written, and counted without loss?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.model.resources import amount_text, lacking, parse_amount, resources_of, resources_text, total


@pytest.mark.parametrize(
    ("name", "text", "amount", "shown"),
    [
        pytest.param("cpu", "2", 2_000, "2", id="whole processors"),
        pytest.param("cpu", "0.5", 500, "0.5", id="half of one"),
        pytest.param("memory", "4GiB", 4 * 2**30, "4GiB", id="memory"),
        pytest.param("memory", "512Mi", 512 * 2**20, "512MiB", id="as Kubernetes writes it"),
        pytest.param("memory", "1.5 GB", 3 * 2**29, "1.5GiB", id="with a point"),
        pytest.param("memory", "100", 100, "100B", id="bytes"),
        pytest.param("licenses", "10", 10_000, "10", id="a name of one's own"),
    ],
)
def test_an_amount(name, text, amount, shown):
    assert parse_amount(name, text) == amount
    assert amount_text(name, amount) == shown


@pytest.mark.parametrize("text", ["0", "-1", "", "many", "1e3", "0.0001", "٣", "9" * 20, "nan", "4GiB"])
def test_invalid_amounts(text):
    with pytest.raises(ValueError, match="must be a number"):
        parse_amount("cpu", text)


@given(st.integers(1, 10**11))
def test_a_number_is_read_back_as_it_was_shown(amount):
    assert parse_amount("x", amount_text("x", amount)) == amount


AMOUNTS = st.dictionaries(st.sampled_from("abc"), st.integers(0, 9)).map(resources_of)


@given(AMOUNTS, AMOUNTS, AMOUNTS)
def test_nothing_is_lacking_exactly_if_all_of_it_is_left(asked, offered, used):
    has, gone = dict(offered), dict(used)
    assert (lacking(asked, offered, used) == ()) == all(has.get(name, 0) - gone.get(name, 0) >= n for name, n in asked)
    assert resources_of(total([asked, used])) == resources_of(
        {name: dict(asked).get(name, 0) + gone.get(name, 0) for name in "abc"}
    )


def test_they_are_shown_by_name():
    assert resources_text(resources_of({"memory": 2**30, "cpu": 2_500})) == "cpu=2.5 memory=1GiB"
