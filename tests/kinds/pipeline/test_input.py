"""Where items and prompts come from: CSV files, prompt files, skills, templates."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.errors import DefinitionError
from evertick.kinds.pipeline import items as items_module
from evertick.kinds.pipeline.definition import CsvFile, Prompt
from evertick.kinds.pipeline.items import parse_csv, read_csv
from evertick.kinds.pipeline.prompts import render, resolve, variables_of
from tests.kinds.pipeline.scripted import pipeline, run
from tests.present import present


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        pytest.param("a,b\n1,2\n", [{"a": "1", "b": "2"}], id="one row"),
        pytest.param("a,b\r\n1,2\r\n3,4", [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}], id="CRLF, no last line end"),
        pytest.param("a\r1\r2\r", [{"a": "1"}, {"a": "2"}], id="CR"),
        pytest.param(" a , b \n 1 ,2", [{"a": " 1 ", "b": "2"}], id="headers are trimmed, values are not"),
        pytest.param('a\n"1,""2""\n3"\n', [{"a": '1,"2"\n3'}], id="quotes, commas and line ends in quotes"),
        pytest.param("a,b\n1\n1,2,3\n", [{"a": "1", "b": ""}, {"a": "1", "b": "2"}], id="short and long rows"),
        pytest.param(
            "a,b\n1,2\n\n3,4\n",
            [{"a": "1", "b": "2"}, {"a": "", "b": ""}, {"a": "3", "b": "4"}],
            id="a blank line inside",
        ),
        pytest.param("a\n1\n\n\n", [{"a": "1"}], id="blank lines at the end"),
        pytest.param("a,b\n", [], id="only a header"),
    ],
)
def test_a_csv_file_is_rows_of_texts(text, rows):
    assert parse_csv(text, ",", "x.csv") == rows


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("", "no header row", id="empty"),
        pytest.param("\n1,2", "no header row", id="a blank first line"),
        pytest.param("a, a\n1,2", "the column 'a' twice", id="a column twice"),
        pytest.param("a\n" + "x" * 200_000, "field larger than", id="an endless cell"),
    ],
)
def test_a_csv_file_that_cannot_be_read_says_why(text, reason):
    with pytest.raises(DefinitionError, match=reason):
        parse_csv(text, ",", "x.csv")


def test_a_byte_order_mark_is_not_part_of_the_first_header(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"\xef\xbb\xbftitle;n\nA;1\n")
    assert read_csv(CsvFile("x.csv", ";"), tmp_path) == [{"title": "A", "n": "1"}]


def test_a_csv_file_may_lie_beside_the_pipelines_folder(tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "one").mkdir()
    (tmp_path / "shared" / "x.csv").write_text("a\n1\n")
    assert read_csv(CsvFile("../shared/x.csv"), tmp_path / "one") == [{"a": "1"}]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(lambda _path: None, "Failed to read input: CSV file not found: .*x.csv", id="missing"),
        pytest.param(lambda path: path.mkdir(), "Failed to read input: .*directory", id="a folder"),
        pytest.param(lambda path: path.write_bytes(b"a\n\xff\n"), "not UTF-8 at byte 2", id="not UTF-8"),
    ],
)
def test_a_file_that_is_not_csv_is_an_error(tmp_path, make, reason):
    make(tmp_path / "x.csv")
    with pytest.raises(DefinitionError, match=reason):
        read_csv(CsvFile("x.csv"), tmp_path)


def test_too_many_items_are_refused(monkeypatch):
    monkeypatch.setattr(items_module, "ITEMS_MAX", 1)
    with pytest.raises(DefinitionError, match=r"2 items; 1 are allowed.*input.limit"):
        run(pipeline())


CELL = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=10)


@given(st.lists(st.tuples(CELL, CELL), max_size=6))
def test_what_a_csv_writer_writes_is_read_back(rows):
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerows([("a", "b"), *rows])
    assert parse_csv(text.getvalue(), ",", "x.csv") == [{"a": a, "b": b} for a, b in rows]


# --- templates


@pytest.mark.parametrize(
    ("template", "text"),
    [
        pytest.param("{{a}}{{a}}", "11", id="twice"),
        pytest.param(
            "{{ a }} {{a.b}} {a} {{a-b}}", "{{ a }} {{a.b}} {a} {{a-b}}", id="blanks, dots and single braces are text"
        ),
        pytest.param("{{missing}}!", "!", id="a missing name is nothing"),
        pytest.param("{{tricky}}", "{{a}}", id="a value is not filled in again"),
        pytest.param("{{COUNT}}", "{{COUNT}}", id="a special name is left to its phase"),
        pytest.param("{{é}}", "{{é}}", id="a name beyond ASCII is text"),
    ],
)
def test_a_template(template, text):
    assert render(template, {"a": "1", "tricky": "{{a}}"}) == text


def test_the_names_that_an_item_must_have():
    assert variables_of("{{b}} {{a}} {{b}} {{ITEMS}} {{ c }}") == ("b", "a")


# --- prompt files and skills


@pytest.mark.parametrize(
    ("place", "name"),
    [
        pytest.param("pipe/ask.md", "ask.md", id="beside the pipeline"),
        pytest.param("pipe/prompts/ask.md", "ask.md", id="in its prompts folder"),
        pytest.param("prompts/ask.md", "ask.md", id="in the prompts folder above"),
        pytest.param("other/ask.md", "../other/ask.md", id="by a path"),
    ],
)
def test_a_prompt_file_is_found(tmp_path, place, name):
    (tmp_path / "pipe").mkdir()
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_text("---\ntitle: x\n---\nAsk {{a}}\n---\nmore\n")
    assert resolve(Prompt("map", file=name), tmp_path / "pipe", tmp_path) == "Ask {{a}}\n---\nmore"


def test_an_empty_prompt_file_is_refused(tmp_path):
    (tmp_path / "ask.md").write_text("---\ntitle: x\n---\n  \n")
    with pytest.raises(DefinitionError, match="is empty"):
        resolve(Prompt("map", file="ask.md"), tmp_path, tmp_path)


@pytest.mark.parametrize("file", ["SKILL.md", "prompt.md"])
def test_a_skill_precedes_the_prompt(tmp_path, file):
    folder = tmp_path / ".github" / "skills" / "care"
    folder.mkdir(parents=True)
    (folder / file).write_text("---\nname: care\n---\nBe careful.")
    prompt = resolve(Prompt("map", text="Do it", skill="care"), tmp_path, tmp_path)
    assert prompt == "[Skill Guidance: care]\nBe careful.\n\n[Task]\nDo it"


def test_the_workspace_is_three_folders_above_the_pipeline(tmp_path):
    skill = tmp_path / ".github" / "skills" / "care"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("Be careful.")
    folder = tmp_path / ".vscode" / "pipelines" / "one"
    folder.mkdir(parents=True)
    data = pipeline(map={"prompt": "{{endpoint}}", "skill": "care"}, reduce={"type": "text"})
    result = run(data, lambda prompt: prompt, folder)
    assert present(result.output).results[0].raw_text == "[Skill Guidance: care]\nBe careful.\n\n[Task]\na"
