import assert from "node:assert/strict";
import { test } from "node:test";
import { firstQuestions, nameOfQuestion } from "./questions";

const NOW = Date.UTC(2026, 2, 2, 9, 0);
const ask = (address: string, stage: number | null = null, defined: string[] = []) => {
  const url = new URL(address, "http://localhost");
  return firstQuestions(url.pathname, url.searchParams, NOW, stage, (job) => defined.includes(job));
};

test("each page is asked for what its address names", () => {
  assert.deepEqual(ask("/"), ["/attention", "/overview"]);
  assert.deepEqual(ask("/overview"), ["/overview"]);
  assert.deepEqual(ask("/jobs?search=a%20b&sort=next&reverse=true&columns=job"), ["/jobs?search=a+b&sort=next&reverse=true&limit=50&sparkline=20"]);
  assert.deepEqual(ask("/runs?state=failed,lost&triggerType=manual"), ["/runs?state=failed&state=lost&trigger=manual&limit=50"]);
  assert.deepEqual(ask("/runs/a%40b"), ["/runs/a%40b"]);
  assert.deepEqual(ask("/settings"), []);
});

test("a job is asked for with the parts of its first tab, and alone for another", () => {
  assert.deepEqual(ask("/jobs/a%2Fb"), ["/jobs/a%2Fb", "/jobs/a%2Fb/durations?limit=200", "/runs?job=a%2Fb&limit=12", "/jobs/a%2Fb/steps?limit=40", "/jobs/a%2Fb/backfill?limit=5"]);
  assert.deepEqual(ask("/jobs/a?tab=rules"), ["/jobs/a"]);
  assert.deepEqual(ask("/jobs/a%2Fb", null, ["a/b"]).slice(5), ["/jobs/a%2Fb/graph", "/jobs/a%2Fb/upcoming?count=12"]);
});

test("the timeline is asked for the period that it will show, where its width is known", () => {
  const [attention = "", , question = ""] = ask("/?span=3600000&sort=name&group=tag&open=x", 1_000);
  const query = new URL(question, "http://localhost").searchParams;
  assert.deepEqual(["sort", "group", "open", "limit"].map((name) => query.get(name)), ["name", "tag", "x", "30"]);
  assert.deepEqual([nameOfQuestion(attention), nameOfQuestion(question)], ["/attention", "/timeline 0"]);
  assert.ok(Date.parse(query.get("from") ?? "") <= NOW - 0.72 * 3_600_000);
  assert.ok(Date.parse(query.get("to") ?? "") >= NOW + 0.28 * 3_600_000);
});
