import assert from "node:assert/strict";
import { test } from "node:test";
import { parseLine, PLAIN, plainText } from "./ansi";

const looks = (line: string) => parseLine(line, PLAIN)[0].map(({ text, look }) => [text, look.fg, look.isBold]);

test("colours and weights are kept", () => {
  assert.deepEqual(looks("a \x1b[1;31mred\x1b[0m b"), [["a ", null, false], ["red", "1", true], [" b", null, false]]);
});

test("bright, indexed and true colours", () => {
  assert.deepEqual(looks("\x1b[92mx\x1b[38;5;196my\x1b[38;2;1;2;300mz\x1b[39mw"), [
    ["x", "10", false], ["y", "rgb(255 0 0)", false], ["z", "rgb(1 2 255)", false], ["w", null, false],
  ]);
});

test("a look goes on in the next line", () => {
  const [, look] = parseLine("\x1b[33mone", PLAIN);
  assert.equal(parseLine("two", look)[0][0]?.look.fg, "3");
});

test("what moves the cursor, sets titles or rings the bell is left out", () => {
  assert.equal(plainText("\x1b[2K\x1b[1Gok\x07\x1b]0;title\x07 \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\"), "ok link");
});

test("a progress bar shows its last state", () => {
  assert.equal(plainText("10%\r50%\r100%\r"), "100%");
});

test("no text is made of broken sequences, and none is lost", () => {
  for (const line of ["\x1b", "\x1b[", "\x1b[31", "\x1b[999;999m", "\x1b[38;5m", "\x1b[38;2;1m", "a\x1b[;;;mb"]) assert.ok(!plainText(line).includes("\x1b["), JSON.stringify(line));
  assert.equal(plainText("a\x1b[;;;mb"), "ab");
});
