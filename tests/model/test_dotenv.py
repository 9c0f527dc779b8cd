"""Which variables does a dotenv file set, and what is refused because programs read it differently?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.errors import DefinitionError
from evertick.model.dotenv import parse_dotenv


def values(text: str) -> dict[str, str]:
    return {one.name: one.value for one in parse_dotenv(text, ".env")}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("", {}, id="an empty file"),
        pytest.param("\ufeff# only\r\n\r\n   # comments\r\n", {}, id="comments, blank lines, and Windows line ends"),
        pytest.param("A=1\nexport B=2\n  C=3", {"A": "1", "B": "2", "C": "3"}, id="plain, exported, indented"),
        pytest.param("A=\nB=''\nC=\"\"\n", {"A": "", "B": "", "C": ""}, id="empty values"),
        pytest.param("A=x=y#z # rest\n", {"A": "x=y#z"}, id="a comment begins behind a blank"),
        pytest.param("A='$HOME `x` \\n \"'\n", {"A": '$HOME `x` \\n "'}, id="single quotes take everything"),
        pytest.param(r'A="a\"b\\c\$d" # e', {"A": 'a"b\\c$d'}, id="the escapes of double quotes"),
        pytest.param("KEY='one\ntwo'\nB=3\n", {"KEY": "one\ntwo", "B": "3"}, id="a value of two lines"),
    ],
)
def test_a_file_sets(text, found):
    assert values(text) == found


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        pytest.param("A = 1", (1, 2), "not followed by '='", id="a blank before the ="),
        pytest.param("A= 1", (1, 3), "a blank behind '='", id="a blank behind the ="),
        pytest.param("X=1\n\n A=a b", (3, 5), "blanks must be in quotes", id="a blank in the value"),
        pytest.param("A=$B", (1, 3), "no references", id="a reference"),
        pytest.param('A="x$B"', (1, 5), "no references", id="a reference in double quotes"),
        pytest.param("A=`id`", (1, 3), "no references", id="a command"),
        pytest.param("A=a\\b", (1, 4), "outside quotes", id="a backslash"),
        pytest.param('A="a\\n"', (1, 5), "read differently", id="an escape that only some know"),
        pytest.param("A=a'b'", (1, 4), "a quote stands in the middle", id="a quote in the middle"),
        pytest.param("A='a'b", (1, 6), "outside quotes", id="text behind the closing quote"),
        pytest.param("A='a\nb", (1, 3), "not closed", id="an open quote"),
        pytest.param("1A=x", (1, 1), "must be NAME=value", id="a name that is none"),
        pytest.param("A=1\nA=2", (2, 4), "set twice: on line 1", id="a name twice"),
        pytest.param("EVERTICK_RUN_ID=x", (1, 1), "reserved", id="a reserved name"),
        pytest.param("A='\0'", (1, 6), "NUL", id="a NUL byte"),
        pytest.param("\n".join(f"A{n}=1" for n in range(501)), (501, 7), "more than 500", id="too many"),
    ],
)
def test_a_file_is_refused_with_its_place(text, place, words):
    with pytest.raises(DefinitionError, match=words) as raised:
        values(text)
    assert (raised.value.file, raised.value.line, raised.value.column) == (".env", *place)


@given(st.text(st.characters(exclude_characters="'\0", exclude_categories=["Cs"]), max_size=40))
def test_single_quotes_carry_any_text(value):
    assert values(f"A='{value}'\nB=1\n") == {"A": value, "B": "1"}


@given(st.text(max_size=80))
def test_nonsense_is_refused_and_never_hangs(text):
    try:
        names = list(values(text))
    except DefinitionError as error:
        names, place = [], (error.line or 0, error.column or 0)
    else:
        place = (1, 1)
    assert all(name.isidentifier() for name in names)
    assert min(place) >= 1
