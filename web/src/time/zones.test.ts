import assert from "node:assert/strict";
import { test } from "node:test";
import { everywhere, short, span } from "./words";
import { instantOf, localMs, offsetText } from "./zones";

const at = (text: string) => Date.parse(text);

test("a local time leads back to its instant", () => {
  for (let ms = at("2026-01-01T00:30:00Z"); ms < at("2027-01-01T00:00:00Z"); ms += 13 * 3_600_000) {
    for (const zone of ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC"]) {
      const found = instantOf(localMs(ms, zone), zone);
      // A local time that comes twice in a night is read as the first of the two.
      assert.ok(found === ms || localMs(found, zone) === localMs(ms, zone), `${zone} ${new Date(ms).toISOString()}`);
    }
  }
});

test("of a time that comes twice the first is meant", () => {
  assert.equal(instantOf(at("2026-10-25T02:30:00Z"), "Europe/Berlin"), at("2026-10-25T00:30:00Z"));
});

test("a time that is skipped is read as the same span later", () => {
  assert.equal(instantOf(at("2026-03-29T02:30:00Z"), "Europe/Berlin"), at("2026-03-29T01:30:00Z"));
});

test("offsets have hours and minutes", () => {
  assert.equal(offsetText(at("2026-03-02T00:00:00Z"), "Asia/Kolkata"), "+05:30");
  assert.equal(offsetText(at("2026-03-02T00:00:00Z"), "America/New_York"), "−05:00");
});

test("every time is shown here, there, and in UTC, each once", () => {
  assert.equal(everywhere(at("2026-03-02T09:00:00Z"), "Europe/Berlin", "Asia/Tokyo").length, 3);
  assert.equal(everywhere(at("2026-03-02T09:00:00Z"), "UTC", "UTC").length, 1);
});

test("today's times have no date, last year's have a year", () => {
  const now = at("2026-03-02T12:00:00Z");
  assert.equal(short(at("2026-03-02T09:00:00Z"), "UTC", now), "09:00:00");
  assert.equal(short(at("2026-03-01T09:00:00Z"), "UTC", now), "Mar 1, 09:00:00");
  // Nine in Tokyo is tomorrow for a reader in London, although it is today there.
  const evening = at("2026-03-02T20:00:00Z");
  assert.equal(short(at("2026-03-03T00:00:00Z"), "Asia/Tokyo", evening), "09:00:00");
  assert.equal(short(at("2026-03-03T00:00:00Z"), "Asia/Tokyo", evening, "Europe/London"), "Mar 3, 09:00:00");
  assert.equal(short(at("2025-03-01T09:00:00Z"), "UTC", now), "Mar 1 2025, 09:00:00");
});

test("spans are as exact as is of use", () => {
  assert.deepEqual([0.2, 12, 1500, 61_000, 3_700_000, 90_000_000].map(span), ["0ms", "12ms", "1.5s", "1m 1s", "1h 1m", "1d 1h"]);
});
