import assert from "node:assert/strict";
import { test } from "node:test";
import { Answers, complete, headersFor } from "./answers";
import { apply, type Delta } from "./delta";

const BEFORE = { tag: 'W/"1"', data: { now: "12:00", items: [{ run: "a", state: "running" }, { run: "b", state: "failed" }, { run: "c" }], total: 3 } };

test("an answer that has not changed is the object from before", () => {
  assert.equal(complete(BEFORE, { status: 304, text: "", tag: 'W/"1"' }), BEFORE);
  assert.equal(complete(BEFORE, { status: 200, text: '{"now": "12:01"}', tag: 'W/"1"' }), BEFORE);
  assert.deepEqual(headersFor(BEFORE), { "a-im": "evertick-delta", "if-none-match": 'W/"1"' });
  assert.deepEqual(headersFor(undefined), { "a-im": "evertick-delta" });
});

test("changes make the new answer, and leave the old one as it is", () => {
  const items = [{ value: { run: "z" } }, { from: 0, fields: { state: { value: "succeeded" } } }, { copy: [1, 2] }];
  const text = JSON.stringify({ fields: { now: { value: "12:01" }, items: { items } }, removed: ["total"] });
  const old = structuredClone(BEFORE.data);
  const found = complete(BEFORE, { status: 226, text, tag: 'W/"2"' });
  const [, , failed, last] = (found?.data as typeof old).items;
  assert.deepEqual(found, { tag: 'W/"2"', data: { now: "12:01", items: [{ run: "z" }, { run: "a", state: "succeeded" }, { run: "b", state: "failed" }, { run: "c" }] } });
  assert.deepEqual(BEFORE.data, old);
  assert.equal(failed, BEFORE.data.items[1], "what did not change is the same object");
  assert.equal(last, BEFORE.data.items[2]);
});

test("a value may be null, false or an object that looks like a change", () => {
  const look = { value: 1, fields: {}, items: [], copy: [0, 1] };
  assert.deepEqual(apply({ a: 1, b: 2, c: 3 }, { fields: { a: { value: null }, b: { value: false }, c: { value: look } } }), { a: null, b: false, c: look });
});

test("changes of another answer are not taken for an answer", () => {
  const text = JSON.stringify({ fields: { items: { items: [{ copy: [2, 2] }] } } } satisfies Delta);
  assert.equal(complete(BEFORE, { status: 226, text, tag: null }), undefined);
  assert.equal(complete(undefined, { status: 226, text, tag: null }), undefined);
  assert.equal(complete(undefined, { status: 304, text: "", tag: null }), undefined);
});

test("the answers that were used last are kept", () => {
  const answers = new Answers();
  for (let number = 0; number < 100; number++) {
    answers.keep(`/${number}`, { data: number, tag: null });
    answers.keep("/again", { data: number, tag: null });
  }
  assert.deepEqual([answers.get("/0"), answers.get("/again")?.data, answers.get("/99")?.data], [undefined, 99, 99]);
  answers.forget();
  assert.equal(answers.get("/again"), undefined);
});
