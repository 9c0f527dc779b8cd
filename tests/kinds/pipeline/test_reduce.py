"""The texts that a reduce makes, character by character."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evertick.kinds.pipeline.invoker import Answer
from evertick.kinds.pipeline.reduce import FORMATS, shown, summarise
from evertick.kinds.pipeline.result import ItemResult
from evertick.kinds.pipeline.run import run_pipeline
from tests.kinds.pipeline.scripted import Scripted, pipeline, run
from tests.present import present

LONG = "x" * 60
RESULTS = (
    ItemResult({"endpoint": "https://example.org/a/long/path"}, {"status": "ok, done", "records_synced": 12}, True),
    ItemResult({"endpoint": "b"}, {"status": None, "records_synced": None}, False, error="timed out"),
)

LIST = """\
## Results (2 items)

**Warning: 1 items failed**

### Item 1
**Input:** endpoint=https://example.org/a/long/...
**Output:** status=ok, done, records_synced=12

### Item 2
**Input:** endpoint=b
**Error:** timed out

---
**Stats:** 1 succeeded, 1 failed"""

TABLE = """\
| # | [in] endpoint | [out] status | [out] records_synced | Status |
| --- | --- | --- | --- | --- |
| 1 | https://example.o... | ok, done | 12 | OK |
| 2 | b | null | null | FAIL |"""

JSON = """\
[
  {
    "input": {
      "endpoint": "https://example.org/a/long/path"
    },
    "output": {
      "status": "ok, done",
      "records_synced": 12
    },
    "success": true
  },
  {
    "input": {
      "endpoint": "b"
    },
    "output": {
      "status": null,
      "records_synced": null
    },
    "success": false,
    "error": "timed out"
  }
]"""

CSV = """\
endpoint,out_status,out_records_synced,success
https://example.org/a/long/path,"ok, done",12,true
b,null,null,false"""

TEXT = """\
{
  "status": "ok, done",
  "records_synced": 12
}"""


@pytest.mark.parametrize(
    ("kind", "golden"),
    [
        pytest.param(kind, text, id=kind)
        for kind, text in {"list": LIST, "table": TABLE, "json": JSON, "csv": CSV, "text": TEXT}.items()
    ],
)
def test_two_results_of_which_one_failed(kind, golden):
    assert FORMATS[kind](RESULTS, summarise(RESULTS, ("status", "records_synced"))) == golden


@pytest.mark.parametrize(
    ("kind", "golden"),
    [
        pytest.param("list", "## Results (0 items)\n\n---\n**Stats:** 0 succeeded, 0 failed", id="list"),
        pytest.param("table", "No results to display.", id="table"),
        pytest.param("json", "[]", id="json"),
        pytest.param("csv", "", id="csv"),
        pytest.param("text", "No successful results.", id="text"),
    ],
)
def test_no_results(kind, golden):
    assert FORMATS[kind]((), summarise((), ())) == golden


def test_several_texts_are_numbered_and_failed_ones_left_out():
    results = (ItemResult({}, {}, True, "one"), RESULTS[1], ItemResult({}, {}, True, "two"))
    assert FORMATS["text"](results, summarise(results, ())) == "--- Item 1 ---\none\n\n--- Item 2 ---\ntwo"


def test_a_single_text_is_printed_alone():
    results = (ItemResult({}, {}, True, "one"),)
    assert FORMATS["text"](results, summarise(results, ())) == "one"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(None, "null", id="nothing"),
        pytest.param(True, "true", id="true"),
        pytest.param(1.5, "1.5", id="a number"),
        pytest.param("x" * 50, "x" * 50, id="fifty characters stay"),
        pytest.param("x" * 51, "x" * 47 + "...", id="fifty-one are cut"),
        pytest.param([1, 2], "[2 items]", id="a list is counted"),
        pytest.param({"a": [1], "é": None}, '{"a":[1],"é":null}', id="an object is JSON"),
    ],
)
def test_a_value_in_a_cell(value, text):
    assert shown(value) == text


def test_columns_are_those_of_all_rows_in_order_of_appearance():
    results = (ItemResult({"a": "1"}, {"x": 1}, True), ItemResult({"b": "2"}, {"y": 2}, True))
    assert FORMATS["csv"](results, summarise(results, ())) == "a,b,out_x,out_y,success\n1,,1,null,true\n,2,null,2,true"


def test_quotes_commas_and_line_breaks_are_quoted_in_csv():
    results = (ItemResult({"a": 'say "hi"', "b": "1\n2", "c": "1\r2"}, {}, True),)
    assert FORMATS["csv"](results, summarise(results, ())) == 'a,b,c,success\n"say ""hi""","1\n2","1\r2",true'


def test_an_ai_reduce_is_shown_the_good_answers_the_counts_and_the_parameters():
    prompt = "In {{lang}}: {{COUNT}} {{SUCCESS_COUNT}} {{FAILURE_COUNT}} {{RESULTS}} {{unknown}}"
    invoker = Scripted(
        lambda text: "The end" if text.startswith("In") else Answer("b" not in text, '{"status": "{{COUNT}}"}')
    )
    data = pipeline(reduce={"type": "ai", "prompt": prompt}, input__parameters=[{"name": "lang", "value": "Latin"}])
    result = run_pipeline(data, ".", invoker)
    assert result.formatted == "The end"
    # A variable inside an answer is the answer's own text.
    assert invoker.prompts[-1] == 'In Latin: 2 1 1 [\n  {\n    "status": "{{COUNT}}"\n  }\n] {{unknown}}'


def test_an_ai_reduce_with_fields_gives_them_as_json():
    data = pipeline(reduce={"type": "ai", "prompt": "Sum up {{RESULTS}}", "output": ["title", "risk"], "model": "best"})
    invoker = Scripted(lambda text: "title: Fine\nrisk: 3" if text.startswith("Sum") else '{"status": "ok"}')
    result = run_pipeline(data, ".", invoker)
    assert json.loads(result.formatted) == {"title": "Fine", "risk": 3}
    assert invoker.calls[-1].question.model == "best"
    assert invoker.prompts[-1].endswith("\n\nReturn JSON with these fields: title, risk")
    assert present(result.output).summary.output_fields == ("title", "risk")


def test_an_ai_reduce_may_read_the_results_from_a_file_that_is_gone_afterwards():
    seen = []

    def answer(text):
        if not text.startswith("Read "):
            return "plain"
        path = Path(text.removeprefix("Read "))
        seen.append((path, json.loads(path.read_text())))
        return "done"

    data = pipeline(map__output=None, reduce={"type": "ai", "prompt": "Read {{RESULTS_FILE}}"})
    assert run(data, answer).formatted == "done"
    ((path, results),) = seen
    assert results == ["plain", "plain"]
    assert not path.exists()
