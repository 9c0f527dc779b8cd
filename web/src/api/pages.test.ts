import assert from "node:assert/strict";
import { test } from "node:test";
import { tailBehind } from "./pages";

const runs = (...names: number[]) => names.map((name) => ({ run: `etl@${name}`, job: "etl" }));

test("what slid off the first page stays between it and the pages behind", () => {
  assert.deepEqual(tailBehind(runs(6, 5, 4, 3, 2, 1), runs(8, 7, 6)), runs(5, 4, 3, 2, 1));
});

test("while nothing has come, the pages behind begin where the first ends", () => {
  assert.deepEqual(tailBehind(runs(6, 5, 4, 3, 2, 1), runs(6, 5, 4)), runs(3, 2, 1));
});

test("pages that do not meet are not put together", () => {
  assert.equal(tailBehind(runs(6, 5, 4), runs(12, 11, 10)), null);
  assert.equal(tailBehind(runs(6, 5, 4), []), null);
});
