import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import { Asker } from "./asker";
import { ApiError } from "./problem";

interface Asked {
  signal: AbortSignal;
  answer: (text: string) => void;
  fail: (error: Error) => void;
}

let asked: Asked[];
let heard: string[];

function ask(): Asker<string> {
  asked = [];
  heard = [];
  const question = (signal: AbortSignal) => new Promise<string>((answer, fail) => asked.push({ signal, answer, fail }));
  return new Asker(question, { onAsk: () => undefined, onAnswer: (text) => heard.push(text), onProblem: (error) => heard.push(error.message) });
}

/** Let promises that are settled be heard. */
const settle = () => new Promise((done) => setImmediate(done));

beforeEach(() => mock.timers.reset());

test("news lets a request in flight finish, and asks once more after it", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const asker = ask();
  asker.ask();
  for (let event = 0; event < 33; event++) asker.changed();
  mock.timers.tick(60_000);
  assert.deepEqual([asked.length, asked[0]?.signal.aborted], [1, false]);
  asked[0]?.answer("first");
  await settle();
  assert.deepEqual(heard, ["first"]);
  mock.timers.tick(10_000);
  assert.equal(asked.length, 2);
});

test("news that comes while nothing is asked is gathered into one request", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const asker = ask();
  for (let event = 0; event < 5; event++) asker.changed();
  mock.timers.tick(999);
  assert.equal(asked.length, 0);
  mock.timers.tick(1);
  assert.equal(asked.length, 1);
});

test("after a change the caller gets a result from after it, at once", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const asker = ask();
  asker.ask();
  asker.ask();
  asked[0]?.answer("before");
  await settle();
  mock.timers.tick(0);
  assert.equal(asked.length, 2);
});

test("a server that is away is asked again until it answers", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const asker = ask();
  asker.ask();
  for (const [turn, status] of [0, 503, 502].entries()) {
    asked[turn]?.fail(new ApiError(status, `away ${status}`));
    await settle();
    mock.timers.tick(15_000);
  }
  asked[3]?.answer("back");
  await settle();
  assert.deepEqual(heard, ["away 0", "away 503", "away 502", "back"]);
});

test("a refusal is not asked for again", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const asker = ask();
  asker.ask();
  asked[0]?.fail(new ApiError(404, "no such job"));
  await settle();
  mock.timers.tick(600_000);
  assert.deepEqual([asked.length, heard], [1, ["no such job"]]);
});

test("a page that is left asks for nothing more", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const asker = ask();
  asker.ask();
  asker.changed();
  asker.stop();
  mock.timers.tick(600_000);
  assert.deepEqual([asked.length, asked[0]?.signal.aborted], [1, true]);
});
