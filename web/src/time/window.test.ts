import assert from "node:assert/strict";
import { test } from "node:test";
import { around, columnsOf, fittingSpan, shift, spanOf, SPAN_MAX, SPAN_MIN, zoom, holds } from "./window";

const NOW = Date.UTC(2026, 2, 2);

test("zooming holds still what is under the pointer", () => {
  const before = around(NOW, 3_600_000);
  const after = zoom(before, 0.5, 0.25);
  assert.ok(Math.abs(before.from + 0.25 * spanOf(before) - (after.from + 0.25 * spanOf(after))) < 1);
});

test("zooming ends at a second and at a year", () => {
  let window = around(NOW, 3_600_000);
  for (let turn = 0; turn < 60; turn++) window = zoom(window, 0.5, 0.5);
  assert.equal(spanOf(window), SPAN_MIN);
  for (let turn = 0; turn < 90; turn++) window = zoom(window, 2, 0.5);
  assert.ok(spanOf(window) <= SPAN_MAX + 1);
});

test("nobody gets lost before 1970 or after 2200", () => {
  assert.equal(shift(around(NOW, 3_600_000), -1e15).from, 0);
  assert.ok(shift(around(NOW, 3_600_000), 1e15).to <= Date.UTC(2200, 0, 1));
});

test("what is asked for holds what is shown, and some more, in no more columns than are wanted", () => {
  for (let span = SPAN_MIN; span <= SPAN_MAX; span *= 1.37) {
    for (const most of [40, 314, 1_000]) {
      const shown = around(NOW + span / 7, span);
      const asked = columnsOf(shown, most);
      const width = spanOf(asked) / asked.cells;
      assert.ok(holds(asked, { from: shown.from - span / 2, to: shown.to + span / 2 }));
      assert.ok(Number.isInteger(asked.cells) && Number.isInteger(width) && asked.from % width === 0);
      assert.ok(asked.cells <= most + 1 && asked.cells > most / 2.6);
    }
  }
});

test("pages that look at the same stretch ask the same while time moves on", () => {
  const asked = [0, 1, 499, 2_999].map((later) => columnsOf(around(NOW + 3_000 + later, 900_000), 314));
  for (const one of asked) assert.deepEqual(one, asked[0]);
  assert.equal(spanOf(asked[0]!) / asked[0]!.cells, 6_000);
});

test("one begins with what there is to see", () => {
  const [minute, hour, day] = [60_000, 3_600_000, 86_400_000];
  assert.equal(fittingSpan(null, 0, 0), 15 * minute);
  assert.equal(fittingSpan(5 * minute, 10, 500), 15 * minute);
  assert.equal(fittingSpan(20 * minute, 10, 500), hour);
  assert.equal(fittingSpan(2 * hour, 10, 500), 6 * hour);
  assert.equal(fittingSpan(9 * day, 10, 500), 6 * hour);
  assert.equal(fittingSpan(9 * day, 10, 4), day);
  assert.equal(fittingSpan(9 * day, 10, 1), 7 * day);
});
