"""Whether a text becomes the intended nodes, and a hostile one a clear error."""

from __future__ import annotations

import pytest

from evertick.definitions.nodes import ListNode, MapNode, ScalarNode, plain_data
from evertick.definitions.parsed_file import SIZE_MAX
from evertick.definitions.yaml import ALIASES_MAX, DEPTH_MAX, NODES_MAX, read_yaml


def value_of(text):
    document = read_yaml(f"field: {text}\n")
    assert document.problems == ()
    assert document.root is not None
    found = plain_data(document.root)
    assert isinstance(found, dict)
    return found["field"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("no", "no", id="no is a text"),
        pytest.param("on", "on", id="on is a text"),
        pytest.param("yes", "yes", id="yes is a text"),
        pytest.param("true", True, id="true is a boolean"),
        pytest.param("FALSE", False, id="FALSE is a boolean"),
        pytest.param("'true'", "true", id="a quoted true is a text"),
        pytest.param("012", 12, id="a leading zero is decimal"),
        pytest.param("0o14", 12, id="0o is octal"),
        pytest.param("0xC", 12, id="0x is hexadecimal"),
        pytest.param("+7", 7, id="a sign is allowed"),
        pytest.param("1:30", "1:30", id="there are no sexagesimal numbers"),
        pytest.param("190:20:30", "190:20:30", id="nor long ones"),
        pytest.param("1_000", "1_000", id="underscores make a text"),
        pytest.param("1.5", 1.5, id="a fraction"),
        pytest.param("1e3", 1000.0, id="an exponent"),
        pytest.param("2026-03-02", "2026-03-02", id="a date is a text"),
        pytest.param("2026-03-02T09:00:00Z", "2026-03-02T09:00:00Z", id="a time is a text"),
        pytest.param("~", None, id="a tilde is null"),
        pytest.param("", None, id="nothing is null"),
        pytest.param("''", "", id="an empty quoted text is not null"),
        pytest.param("=", "=", id="the value key of YAML 1.1 is a text"),
        pytest.param("0b11", "0b11", id="binary is not in the core schema"),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(text, value):
    found = value_of(text)
    assert found == value
    assert type(found) is type(value)


def test_every_value_knows_its_line_and_column():
    root = read_yaml("a: 1\nb:\n  - x\n  - {c: d}\n").root
    assert isinstance(root, MapNode)
    (_a, one), (b, items) = root.entries
    assert (one.line, one.column) == (1, 4)
    assert (b.line, b.column) == (2, 1)
    assert isinstance(items, ListNode)
    assert (items.items[0].line, items.items[0].column) == (3, 5)
    inner = items.items[1]
    assert isinstance(inner, MapNode)
    key, value = inner.entries[0]
    assert (key.column, value.column) == (6, 9)


def test_columns_count_characters_and_not_bytes():
    root = read_yaml("é: ü\nname: {ä: x}\n").root
    assert isinstance(root, MapNode)
    inner = root.entries[1][1]
    assert isinstance(inner, MapNode)
    assert inner.entries[0][1] == ScalarNode("x", "x", 2, 11)


def test_an_alias_is_replaced_by_its_anchor():
    document = read_yaml("a: &x [1, 2]\nb: *x\n")
    assert document.problems == ()
    assert document.root is not None
    assert plain_data(document.root) == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize(
    ("source", "line", "column", "words"),
    [
        pytest.param("a: 1\nb: 2\na: 3\n", 3, 1, "'a' is written twice: on line 1 and on line 3", id="a duplicate key"),
        pytest.param("a: {b: 1, b: 2}\n", 1, 11, "'b' is written twice", id="a duplicate key in braces"),
        pytest.param("a: !!python/object:os.system x\n", 1, 4, "tag", id="a python tag"),
        pytest.param("a: !!str 1\n", 1, 4, "tag", id="a standard tag"),
        pytest.param("a: !mine {b: 1}\n", 1, 4, "tag", id="a tag of one's own on a map"),
        pytest.param("a: &x {b: 1}\nc:\n  <<: *x\n", 3, 3, "merge keys", id="a merge key"),
        pytest.param("? [a, b]\n: c\n", 1, 3, "name must be a text", id="a list as a key"),
        pytest.param("~: x\n", 1, 1, "name must be a text", id="an empty key"),
        pytest.param("a: .inf\n", 1, 4, "not a finite number", id="infinity"),
        pytest.param("a: 1e999\n", 1, 4, "too large", id="a number beyond all bounds"),
        pytest.param(f"a: {'9' * 400}\n", 1, 4, "too long", id="a number of 400 digits"),
        pytest.param("a: 1\n\tb: 2\n", 2, 1, "a tab is used for indentation", id="a tab after a value"),
        pytest.param("a:\n\t- b\n", 2, 1, "a tab is used for indentation", id="a tab before a dash"),
        pytest.param("\ta: 1\n", 1, 1, "a tab is used for indentation", id="a tab at the start"),
        pytest.param("a: @daily\n", 1, 4, "cannot start with '@'", id="an alias of cron without quotes"),
        pytest.param("a: `x`\n", 1, 4, "cannot start with '`'", id="a backtick"),
        pytest.param("a: b: c\n", 1, 5, "':' is not expected", id="two colons"),
        pytest.param("a: 1\nb: 'x\n\n", 2, 4, "never closed", id="an open quote"),
        pytest.param("a: [1, 2\n", 1, 4, "not closed", id="an open bracket"),
        pytest.param("a: {b: 2\n", 1, 4, "not closed", id="an open brace"),
        pytest.param("a: * * * * *\n", 1, 4, "cannot begin with '*'", id="a cron expression without quotes"),
        pytest.param("a:\n  - */5 * * * *\n", 2, 5, "cannot begin with '*'", id="one in a list"),
        pytest.param('a: "\\d"\n', 1, 5, "escape", id="an unknown escape"),
        pytest.param("a: | x\n", 1, 6, "on the next line", id="a block text on its own line"),
        pytest.param("a: - x\n", 1, 4, "'-' is not expected", id="a dash behind a field"),
        pytest.param("a: 1\rb: @x\r", 2, 4, "cannot start with '@'", id="lines that end as they did long ago"),
        pytest.param("a: 1\n---\nb: 2\n", 2, 1, "second document", id="two documents"),
        pytest.param("a: *x\n", 1, 4, "has no anchor", id="an alias of nothing"),
        pytest.param("a: &x [*x]\n", 1, 8, "inside its own anchor", id="an alias of itself"),
        pytest.param("%YAML 3.0\n---\na: 1\n", 1, 1, "version of YAML", id="a version from the future"),
        pytest.param("a: x\0y\n", 1, 5, "NUL", id="a NUL"),
        pytest.param(b"a: 1\nb: x\0y\n", 2, 5, "NUL", id="a NUL in bytes"),
        pytest.param("a: \x1b[31m\n", 1, 4, "U+001B", id="an escape character"),
        pytest.param(b"\xef\xbb\xbfa: 1\n", 1, 1, "byte order mark", id="a byte order mark"),
        pytest.param("a: 1\nb: \ufeff\n", 2, 4, "byte order mark", id="a byte order mark inside"),
        pytest.param("a: 1\n".encode("utf-16"), 1, 1, "UTF-16", id="UTF-16 with its mark"),
        pytest.param("a: 1\n".encode("utf-16-le"), 1, 1, "UTF-16", id="UTF-16 little endian"),
        pytest.param("a: 1\n".encode("utf-16-be"), 1, 1, "UTF-16", id="UTF-16 big endian"),
        pytest.param("a: 1\n".encode("utf-32"), 1, 1, "UTF-16 or UTF-32", id="UTF-32"),
        pytest.param(b"a: 1\nb: caf\xe9\n", 2, 7, "0xe9 is not UTF-8", id="Latin-1"),
        pytest.param("a: \ud800\n", 1, 4, "surrogate", id="half a surrogate pair"),
        pytest.param("a: x\u2028b: y\n", 1, 5, "U+2028", id="a Unicode line separator"),
    ],
)
def test_a_refusal_names_the_place_and_the_reason(source, line, column, words):
    problems = read_yaml(source).problems
    assert [(problem.line, problem.column) for problem in problems] == [(line, column)]
    assert words in problems[0].reason
    assert problems[0].hint.endswith((".", "?"))


def test_every_duplicate_and_tag_is_reported_at_once():
    problems = read_yaml("a: 1\na: 2\nb: !x 3\nc: {d: 1, d: 2}\n").problems
    assert sorted(problem.line for problem in problems) == [2, 3, 4]


def test_an_empty_text_has_no_root_and_no_problem():
    assert read_yaml("") == read_yaml("# only a comment\n")
    assert read_yaml("").root is None
    assert read_yaml("").problems == ()


class TestLimits:
    def test_a_file_of_the_largest_size_is_read_and_one_byte_more_is_not(self):
        text = "a: 1\n" + "#" * (SIZE_MAX - 6) + "\n"
        assert read_yaml(text.encode()).problems == ()
        assert "more than" in read_yaml(b"#" + text.encode()).problems[0].reason

    def test_size_counts_bytes_in_a_text_too(self):
        assert read_yaml("# " + "é" * (SIZE_MAX // 2)).problems != ()

    def test_the_deepest_nesting_is_read_and_one_level_more_is_not(self):
        assert read_yaml("[" * DEPTH_MAX + "]" * DEPTH_MAX).problems == ()
        assert "deeper" in read_yaml("[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1)).problems[0].reason

    def test_a_hundred_thousand_brackets_are_refused_without_reading_them_all(self):
        assert "deeper" in read_yaml("[" * 100_000).problems[0].reason
        assert "deeper" in read_yaml("- " * 100_000).problems[0].reason

    def test_depth_counts_through_aliases(self):
        lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 90)]
        problem = read_yaml("\n".join(lines)).problems[0]
        assert "deeper" in problem.reason
        assert problem.line == DEPTH_MAX

    def test_the_largest_number_of_values_is_read_and_one_more_is_not(self):
        assert read_yaml("[" + "1," * (NODES_MAX - 1) + "]").problems == ()
        assert "more than 50,000 values" in read_yaml("[" + "1," * NODES_MAX + "]").problems[0].reason

    def test_an_alias_costs_as_much_as_its_value(self):
        lines = ["a: &a [" + "x," * 999 + "]", "b: &b [" + "*a," * 10 + "]", "c: [" + "*b," * 3 + "]"]
        assert read_yaml("\n".join(lines)).problems == ()
        lines[2] = "c: [" + "*b," * 4 + "]"
        assert "aliases included" in read_yaml("\n".join(lines)).problems[0].reason

    def test_a_bomb_of_nine_to_the_ninth_is_refused_where_it_grows_too_large(self):
        lines = ["a: &a [" + ",".join(["lol"] * 9) + "]"]
        for name, previous in zip("bcdefghi", "abcdefgh", strict=True):
            lines.append(f"{name}: &{name} [" + ",".join([f"*{previous}"] * 9) + "]")
        problem = read_yaml("\n".join(lines)).problems[0]
        assert "aliases included" in problem.reason
        assert problem.line == 5

    def test_a_hundred_aliases_are_read_and_one_more_is_not(self):
        assert read_yaml("a: &a 1\nb: [" + "*a," * ALIASES_MAX + "]").problems == ()
        assert "aliases" in read_yaml("a: &a 1\nb: [" + "*a," * (ALIASES_MAX + 1) + "]").problems[0].reason
