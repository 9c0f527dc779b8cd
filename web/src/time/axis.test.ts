import assert from "node:assert/strict";
import { test } from "node:test";
import { inside, spanTicks, ticks } from "./axis";
import { roundSpan } from "./words";

const at = (text: string) => Date.parse(text);
const labels = (from: string, to: string, width: number, zone: string) => ticks(at(from), at(to), width, zone).map((tick) => tick.label);

test("an hour has round minutes", () => {
  assert.deepEqual(labels("2026-03-02T09:00:00Z", "2026-03-02T10:00:00Z", 600, "UTC"), ["09:00", "09:10", "09:20", "09:30", "09:40", "09:50", "10:00"]);
});

test("midnight is called by its day", () => {
  assert.ok(labels("2026-03-02T20:00:00Z", "2026-03-03T04:00:00Z", 800, "UTC").includes("Tue 3 Mar"));
});

test("days begin at local midnight on both sides of a change of the clock", () => {
  const found = ticks(at("2026-03-27T00:00:00Z"), at("2026-04-01T00:00:00Z"), 600, "Europe/Berlin").map((tick) => new Date(tick.at).toISOString());
  assert.deepEqual(found.slice(0, 3), ["2026-03-27T23:00:00.000Z", "2026-03-28T23:00:00.000Z", "2026-03-29T22:00:00.000Z"]);
});

test("a skipped hour has no line of its own, and none comes twice", () => {
  const found = ticks(at("2026-03-29T00:00:00Z"), at("2026-03-29T04:00:00Z"), 800, "Europe/Berlin").map((tick) => tick.at);
  assert.equal(new Set(found).size, found.length);
  assert.deepEqual([...found].sort((one, other) => one - other), found);
});

test("a year has its months", () => {
  assert.deepEqual(labels("2025-11-20T00:00:00Z", "2026-11-20T00:00:00Z", 1200, "UTC").slice(0, 3), ["Dec", "2026", "Feb"]);
});

test("a second has tenths", () => {
  assert.ok(labels("2026-03-02T09:00:00Z", "2026-03-02T09:00:01Z", 1000, "UTC").includes("00.500"));
});

test("from a second to a century there are lines, and never too many", () => {
  for (let span = 1_000; span < 3.2e12; span *= 1.7) {
    for (const zone of ["UTC", "Europe/Berlin", "Asia/Kolkata", "Pacific/Apia"]) {
      const found = ticks(1.7e12, 1.7e12 + span, 1200, zone);
      assert.ok(found.length >= 1 && found.length <= 40, `${span} ms in ${zone}: ${found.length}`);
    }
  }
});

test("spans are round, and few", () => {
  assert.deepEqual(spanTicks(10_000).map(roundSpan), ["0", "2s", "4s", "6s", "8s", "10s"]);
  assert.deepEqual(spanTicks(8 * 60_000).map(roundSpan), ["0", "2m", "4m", "6m", "8m"]);
  assert.deepEqual(spanTicks(9).map(roundSpan), ["0", "2ms", "4ms", "6ms", "8ms"]);
  for (let longest = 1; longest < 1e10; longest *= 1.7) {
    const found = spanTicks(longest);
    assert.ok(found.length >= 2 && found.length <= 7, `${longest} ms: ${found.length}`);
  }
});

test("a label at an edge is moved until it is whole", () => {
  assert.deepEqual([inside(2, "12:00", 400), inside(200, "12:00", 400), inside(399, "12:00", 400)], [17.5, 200, 382.5]);
});
