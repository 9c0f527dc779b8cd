/** Lines of the audit log in words: the log itself has the route and the address. */

const PREFIX = "/api/v1";

const DEEDS: Record<string, string> = {
  "POST /session": "Signed in",
  "DELETE /session": "Signed out",
  "POST /jobs/{job}/trigger": "Triggered a job",
  "POST /jobs/{job}/cancel": "Cancelled a job's runs",
  "POST /jobs/{job}/pause": "Paused a job",
  "POST /jobs/{job}/resume": "Resumed a job",
  "POST /jobs/{job}/backfill": "Backfilled a job",
  "DELETE /jobs/{job}/backfill/{request}": "Cancelled a backfill",
  "POST /runs/{run}/cancel": "Cancelled a run",
  "POST /runs/{run}/retry": "Retried a run",
  "POST /bulk": "Ran a bulk action",
  "POST /hooks/{job}": "Called a webhook",
  "POST /tokens": "Created a token",
  "DELETE /tokens/{token}": "Revoked a token",
  "PUT /definitions/{job}": "Saved a definition",
  "DELETE /definitions/{job}": "Deleted a definition",
  "POST /definitions/validate": "Validated a definition",
  "POST /definitions/import/{kind}": "Converted definitions",
  "POST /nodes/{node}/forget": "Forgot a node",
  "POST /executors/{executor}/members/{member}/drain": "Drained a member",
  "POST /executors/{executor}/members/{member}/undrain": "Undrained a member",
  "POST /executors/{executor}/members/{member}/remove": "Removed a member",
  "POST /executors/{executor}/members/{member}/forget": "Forgot a member",
  "POST /blackouts": "Added a blackout",
  "DELETE /blackouts/{blackout}": "Removed a blackout",
};

/** The action; the route if it has no words here. */
export function deedOf(action: string, detail?: unknown): string {
  // Lines of older versions tell of previews too.
  const isPreview = typeof detail === "object" && detail !== null && "preview" in detail && detail.preview === true;
  if (isPreview && action.endsWith("/backfill")) return "Previewed a backfill";
  return DEEDS[action.replace(PREFIX, "")] ?? action;
}

/** What it was done to: the parts of the address that the route leaves open. */
export function objectOf(action: string, target: string): string {
  const route = action.slice(action.indexOf(" ") + 1).split("/");
  const parts = target.split("/");
  if (!(action.replace(PREFIX, "") in DEEDS) || route.length !== parts.length) return target;
  return parts.filter((_, index) => route[index]?.startsWith("{")).join(" · ");
}

const OUTCOMES: Record<string, string> = { "401": "not signed in", "403": "forbidden", "404": "not found", "409": "conflict", "422": "invalid", "429": "rate limited" };

export function outcomeOf(status: string | null | undefined): string {
  if (!status) return "";
  if (/^2\d\d$/.test(status)) return "done";
  return OUTCOMES[status] ? `${OUTCOMES[status]} (${status})` : status;
}
