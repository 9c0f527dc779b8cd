import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { deedOf, objectOf, outcomeOf } from "./audit-words";

test("a line says what was done to what", () => {
  const action = "POST /api/v1/jobs/{job}/trigger";
  assert.deepEqual([deedOf(action), objectOf(action, "/api/v1/jobs/etl/trigger")], ["Triggered a job", "etl"]);
  assert.deepEqual([deedOf("POST /api/v1/session"), objectOf("POST /api/v1/session", "/api/v1/session")], ["Signed in", ""]);
});

test("an action without words is shown as its route", () => {
  assert.deepEqual([deedOf("GET /api/v1/audit"), objectOf("GET /api/v1/audit", "/api/v1/audit")], ["GET /api/v1/audit", "/api/v1/audit"]);
});

test("an outcome is shown in words, and a refusal with its number", () => {
  assert.deepEqual(["200", "204", "403", "500", null].map(outcomeOf), ["done", "done", "forbidden (403)", "500", ""]);
});

test("every action that the API has is shown in words", () => {
  const { paths } = JSON.parse(readFileSync("../docs/reference/openapi.json", "utf8")) as { paths: Record<string, Record<string, unknown>> };
  const actions = Object.entries(paths).flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`));
  const changing = actions.filter((action) => !action.startsWith("GET "));
  assert.ok(changing.length > 20);
  assert.deepEqual(changing.filter((action) => deedOf(action) === action), []);
});
