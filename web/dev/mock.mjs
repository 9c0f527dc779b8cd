// Made-up answers in the shapes of the API, for work on the page alone. Nothing of this is built or shipped.

const MINUTE = 60_000, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const COUNT = Number(process.env.EVERTICK_JOBS ?? 36);
const iso = (ms) => new Date(Math.round(ms)).toISOString();

function noise(text) {
  let hash = 2166136261;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 16777619);
  hash = Math.imul(hash ^ (hash >>> 15), 2246822507);
  return ((hash ^ (hash >>> 13)) >>> 0) / 4294967296;
}

const NAMES = ["heartbeat", "hourly-report", "nightly-build", "backup-orders", "sync-crm", "rotate-keys", "weekly-export", "billing-close", "cache-warm", "reindex-search", "import-rates", "mail-digest", "vacuum-db", "certificates", "train-model", "score-leads", "thumbnails", "audit-trail"];
const EVERY = [20_000, HOUR, DAY, 6 * HOUR, 5 * MINUTE, DAY, 7 * DAY, DAY, 10 * MINUTE, 2 * HOUR, 15 * MINUTE, DAY, 12 * HOUR, DAY, 3 * HOUR, 30 * MINUTE, MINUTE, HOUR];
const ZONES = ["Europe/Berlin", "UTC", "America/New_York", "Asia/Tokyo", "Asia/Kolkata"];

const jobs = Array.from({ length: COUNT }, (_, index) => {
  const name = NAMES[index % NAMES.length] + (index >= NAMES.length ? `-${String(Math.floor(index / NAMES.length)).padStart(3, "0")}` : "");
  const every = EVERY[index % EVERY.length];
  return {
    job: name, every, phase: Math.floor(noise(name) * Math.min(every, HOUR) / MINUTE) * MINUTE, index,
    description: `Does the ${name.replaceAll("-", " ")} every ${every / MINUTE} minutes`,
    timezone: ZONES[index % ZONES.length], tags: [["reports", "data", "ops", "money"][index % 4]],
    status: index % 18 === 7 ? "paused" : index % 18 === 5 ? "error" : index % 18 === 13 ? "disabled" : index % 18 === 14 ? "running" : "idle",
  };
});
jobs.sort((one, other) => (one.job < other.job ? -1 : 1));
const byName = new Map(jobs.map((job) => [job.job, job]));

const duration = (job, at) => Math.min(job.every * 0.7, 200 + noise(job.job + "d") * job.every * 0.4) * (0.6 + 0.8 * noise(job.job + at));
const first = (job, from) => Math.ceil((from - job.phase) / job.every) * job.every + job.phase;

// Ten hours ago the scheduler was down for two hours.
const start = Math.floor(Date.now() / HOUR) * HOUR;
const outage = { from: start - 10 * HOUR, to: start - 8 * HOUR };

function runOf(job, at, now) {
  const dice = noise(job.job + at);
  let [state, reason, trigger, lateness] = ["succeeded", null, "scheduler", 0.002 + 0.2 * noise("l" + job.job + at)];
  if (at > outage.from && at < outage.to) {
    if (job.index % 3 === 0) [state, reason] = ["skipped", "missed"];
    else [trigger, lateness] = ["catchup", (outage.to - at) / 1000 + 5];
  } else if (dice < 0.04) state = "failed";
  else if (dice < 0.05) state = "timed_out";
  else if (dice < 0.054) state = "lost";
  else if (dice < 0.06) state = "cancelled";
  else if (dice < 0.09) [state, reason] = ["skipped", "overlap"];
  else if (dice < 0.11 && job.index % 4 === 1) trigger = "backfill";
  else if (dice < 0.12) trigger = "manual";
  else if (dice < 0.14) lateness = job.every / 6000;
  const started = state === "skipped" ? null : at + lateness * 1000;
  let finished = started === null ? null : started + duration(job, at);
  if (job.status === "running" && at + job.every > now) [state, finished] = ["running", null];
  if (finished !== null && finished > now) [state, finished] = ["running", null];
  return {
    run: `${job.job}@${iso(at)}`, job: job.job, at, state, reason, trigger, started, finished, lateness: started === null ? null : lateness,
  };
}

function asRun(job, one) {
  return {
    run: one.run, job: job.job, scheduled_for: iso(one.at), state: one.state, reason: one.reason, trigger: one.trigger, attempt: one.state === "failed" ? 3 : one.started ? 1 : 0,
    started_at: one.started && iso(one.started), finished_at: one.finished && iso(one.finished), duration_seconds: one.finished && one.started ? (one.finished - one.started) / 1000 : null,
    lateness_seconds: one.lateness, exit_code: one.state === "failed" ? 1 : one.finished ? 0 : null, detail: one.state === "failed" ? "step 'export' ended with exit code 1" : one.reason === "overlap" ? "the run of 09:00 was still running" : "",
    executor: one.started ? "local" : "", decided_at: iso(one.at - 5000), decided_by: "node-1", through: null, occurrences: 1, request: null, params: null, timezone: job.timezone,
  };
}

function asMark(job, one) {
  const { run, state, reason, scheduled_for: at, duration_seconds, lateness_seconds, started_at, trigger, attempt } = asRun(job, one);
  return { run, at, state, reason, trigger, started_at, duration_seconds, lateness_seconds, attempt };
}

function* runs(job, from, to, now) {
  for (let at = first(job, from); at <= Math.min(to, now); at += job.every) yield runOf(job, at, now);
}

function lane(job, from, to, cells, now) {
  const width = (to - from) / cells;
  const oldest = Math.max(from, now - 200 * DAY);
  const many = (Math.min(to, now) - oldest) / job.every > cells;
  const result = { job: job.job, name: job.job, description: job.description, status: job.status, timezone: job.timezone, next: job.status === "idle" || job.status === "running" ? iso(first(job, now)) : null, watermark: iso(job.status === "paused" ? now - 3 * HOUR : now), marks: [], cells: [], gaps: [], ahead: [], ahead_count: 0, ahead_cells: [], held: job.status === "paused" ? "paused" : null };
  const last = job.status === "paused" ? now - 3 * HOUR : now;
  if (many) {
    for (let at = Math.floor(oldest / width) * width; at < Math.min(to, last); at += width) {
      const count = Math.floor((at + width - job.phase) / job.every) - Math.floor((at - job.phase) / job.every);
      if (!count) continue;
      const bad = noise(job.job + "c" + Math.floor(at / width)) < 0.12 ? Math.ceil(count * 0.05) : 0;
      const skipped = noise(job.job + "s" + Math.floor(at / width)) < 0.08 ? Math.floor(count * 0.4) : 0;
      result.cells.push({ at: iso(at), until: iso(at + width), count, states: { succeeded: count - bad - skipped, failed: bad, skipped }, triggers: { scheduler: count }, reasons: skipped ? { overlap: skipped } : {} });
    }
  } else {
    for (const one of runs(job, oldest, Math.min(to, last), now)) {
      if (one.reason === "missed") continue;
      result.marks.push({ run: one.run, at: iso(one.at), state: one.state, reason: one.reason, trigger: one.trigger, started_at: one.started && iso(one.started), duration_seconds: one.finished && (one.finished - one.started) / 1000, lateness_seconds: one.lateness, attempt: 1 });
    }
  }
  if (job.index % 3 === 0 && job.every < 2 * HOUR && outage.to > from && outage.from < to) {
    const at = first(job, outage.from + 1);
    result.gaps.push({ run: `${job.job}@${iso(at)}`, from: iso(at), through: iso(outage.to - 1), occurrences: Math.max(1, Math.floor((outage.to - at) / job.every)), reason: "missed", detail: "no scheduler ran, and the job does not catch up" });
  }
  const ahead = Math.max(from, now);
  if (job.status === "disabled" || to < now) return result;
  if ((to - ahead) / job.every > cells / 2) {
    for (let at = Math.ceil(ahead / width) * width; at < to; at += width) result.ahead_cells.push({ at: iso(at), until: iso(at + width), count: Math.max(1, Math.round(width / job.every)) });
  } else for (let at = first(job, ahead + 1); at <= to; at += job.every) result.ahead.push(iso(at));
  return result;
}

function recent(job, count, now) {
  const found = [];
  for (let at = first(job, now) - job.every; found.length < count; at -= job.every) found.push(runOf(job, at, now));
  return found;
}

function asJob(job, now, count = 20) {
  const latest = recent(job, count, now);
  const paused = job.status === "paused";
  return { job: job.job, name: job.job, description: job.description, status: job.status, timezone: job.timezone, tags: job.tags, file: `jobs/${job.job}.yaml`, is_defined: true, schedules: [job.every < HOUR ? `*/${Math.max(1, job.every / MINUTE)} * * * *` : "0 2 * * *"], next: paused || job.status === "disabled" ? null : iso(first(job, now)), watermark: iso(now), active: job.status === "running" ? [asRun(job, latest[0])] : [], waiting: 0, last: latest[0] ? asRun(job, latest[0]) : null, paused_at: paused ? iso(now - 3 * HOUR) : null, pause_note: paused ? "until the migration is done" : "", error: "", retired_at: null, last_success_for: iso(now - HOUR), enabled: job.status !== "disabled", queue: null, recent: latest.reverse().map((one) => asMark(job, one)) };
}

const LOG = Array.from({ length: 3000 }, (_, index) => index % 97 === 13 ? `\x1b[33mWARN\x1b[0m  retrying page ${index}` : index % 211 === 7 ? `\x1b[1;31mERROR\x1b[0m connection reset by \x1b[4mpeer\x1b[0m` : `\x1b[2m${iso(start + index * 310).slice(11, 23)}\x1b[0m \x1b[32mINFO\x1b[0m  exported page ${index} of 3000 (${Math.round(noise("x" + index) * 900)} rows)`).join("\n") + "\n";

function page(items, query, size = 50) {
  const offset = Number(query.get("cursor") ?? 0), limit = Number(query.get("limit") ?? size);
  return { items: items.slice(offset, offset + limit), next: offset + limit < items.length ? String(offset + limit) : null };
}

function chosen(query) {
  const search = (query.get("search") ?? "").toLowerCase(), tag = query.get("tag"), state = query.get("state");
  return jobs.filter((job) => job.job.includes(search) && (!tag || job.tags.includes(tag)) && (!state || job.status === state));
}

function calendar(list, query, now) {
  const days = [];
  for (let at = Date.parse(query.get("start")); at <= Date.parse(query.get("end")); at += DAY) {
    const total = list.reduce((sum, job) => sum + (job.every >= DAY ? (noise(job.job + at) < DAY / job.every ? 1 : 0) : Math.round(DAY / job.every)), 0);
    const bad = noise("cal" + at) < 0.2 ? Math.ceil(total * 0.03) : 0, skipped = noise("sk" + at) < 0.15 ? Math.ceil(total * 0.1) : 0;
    const date = iso(at).slice(0, 10);
    const past = at < now;
    days.push({ date, start: iso(at), hours: date.endsWith("-03-29") ? 23 : date.endsWith("-10-25") ? 25 : 24, states: past ? { succeeded: total - bad - skipped, failed: bad, skipped } : {}, skips: past && skipped ? { overlap: skipped } : {}, triggers: { catchup: past && noise("cu" + at) < 0.05 ? 4 : 0 }, ahead: at >= now - DAY ? total : 0 });
  }
  return { timezone: query.get("zone") ?? "UTC", days };
}

const STEPS = [["fetch", []], ["validate", ["fetch"]], ["enrich", ["fetch"]], ["export", ["validate", "enrich"]], ["publish", ["export"]]];

function runDetail(id, now) {
  const [name, time] = id.split("@");
  const job = byName.get(name) ?? jobs[0];
  const one = runOf(job, Date.parse(time), now), run = asRun(job, one);
  const attempts = Array.from({ length: run.attempt }, (_, index) => {
    const began = one.started + index * 40_000, ended = index + 1 < run.attempt ? began + 30_000 : one.finished ?? now, whole = ended - began;
    const isBad = one.state === "failed" || index + 1 < run.attempt;
    return { attempt: index + 1, state: index + 1 < run.attempt ? "failed" : run.state, started_at: iso(began), finished_at: one.finished || index + 1 < run.attempt ? iso(ended) : null, exit_code: isBad ? 1 : one.finished ? 0 : null, detail: isBad ? "step 'export' ended with exit code 1" : "",
      steps: STEPS.map(([step], place) => ({ step, state: isBad && place > 3 ? "skipped" : isBad && place === 3 ? "failed" : one.finished || place < 3 ? "succeeded" : place === 3 ? "running" : "pending", started_at: place > 3 && (isBad || !one.finished) ? null : iso(began + whole * [0, 0.25, 0.25, 0.6, 0.9][place]), finished_at: (place > 2 && !one.finished && !isBad) || (isBad && place > 3) ? null : iso(began + whole * [0.24, 0.4, 0.58, 0.88, 1][place]), exit_code: 0, tries: place === 2 ? 2 : 1, detail: "", log_bytes: LOG.length })) };
  });
  return { ...run, steps: attempts.flatMap((attempt) => attempt.steps.filter((step) => step.state !== "pending").map(({ step: name, ...step }) => ({ name, attempt: attempt.attempt, ...step }))), spec: { name: job.job, schedule: "*/5 * * * *", steps: STEPS.map(([name, depends]) => ({ name, depends, command: `./${name}.sh` })) }, can_cancel: one.state === "running", can_retry: one.state !== "running", can_retry_from_failed: one.state === "failed", blocked_by: [], logs: attempts.flatMap((attempt) => attempt.steps.map((step) => ({ attempt: attempt.attempt, step: step.step, size: LOG.length, is_complete: true }))) };
}

const fire = (at, job, now) => ({ job: job.job, action: "start", scheduled_for: iso(at), local: iso(at + HOUR).slice(0, 19).replace("T", " "), offset: "+01:00", timezone: job.timezone, wait_seconds: (at - now) / 1000, what: "run", reason: null, detail: "" });

const ROUTES = [
  [/^\/session$/, () => ({ user: "admin", role: "admin", csrf: "x", version: "0.1.0", node: "node-1", timezone: "Europe/Berlin" })],
  [/^\/overview$/, (_, query, now) => {
    const all = jobs.slice(0, 400).flatMap((job) => recent(job, 12, now).map((one) => asRun(job, one))).sort((one, other) => (one.scheduled_for < other.scheduled_for ? 1 : -1));
    const of = (...states) => all.filter((run) => states.includes(run.state)).slice(0, 20);
    const statuses = Object.fromEntries(["idle", "running", "paused", "error", "disabled"].map((state) => [state, jobs.filter((job) => job.status === state).length]));
    return {
      now: iso(now), is_scheduler_running: true, scheduler: {}, jobs: { total: jobs.length, statuses }, active: { total: 3, items: of("running") }, waiting: { total: 0, items: [] },
      day: { states: { succeeded: 8412, failed: 61, timed_out: 4, lost: 1, skipped: 214 }, skips: { overlap: 160, missed: 54 }, triggers: { scheduler: 8600, catchup: 38 }, success_rate: 0.9922, latest_seconds: 4.2, lateness: { p50: 0.0021, p99: 0.031 }, hours: Array.from({ length: 24 }, (_, index) => ({ at: iso(start - (23 - index) * HOUR), states: { succeeded: index === 14 || index === 15 ? 20 : 300 + Math.round(noise("h" + index) * 120), failed: noise("hf" + index) < 0.3 ? 12 : 1, skipped: 9 } })) },
      failed: of("failed", "timed_out", "lost").slice(0, 10), skipped: of("skipped").slice(0, 10), problems: [],
      next: jobs.map((job) => fire(first(job, now), job, now)).sort((a, b) => (a.scheduled_for < b.scheduled_for ? -1 : 1)).slice(0, 10),
    };
  }],
  [/^\/ribbon$/, (_, query, now) => {
    const list = chosen(query), offset = Number(query.get("offset")), limit = Number(query.get("limit"));
    return { now: iso(now), from: query.get("from"), to: query.get("to"), total: list.length, offset, lanes: list.slice(offset, offset + limit).map((job) => lane(job, Date.parse(query.get("start")), Date.parse(query.get("end")), Number(query.get("cells")), now)) };
  }],
  [/^\/jobs$/, (_, query, now) => { const list = chosen(query), found = page(list, query); return { ...found, items: found.items.map((job) => asJob(job, now)), total: list.length, statuses: { idle: 30 }, tags: { data: 9, money: 9, ops: 9, reports: 9 }, problems: [{ file: "jobs/broken.yaml", line: 7, text: "jobs/broken.yaml:7: unknown field 'catchup'. Did you mean 'catchupWindow'?" }] }; }],
  [/^\/jobs\/([^/]+)$/, ([name], _, now) => byName.has(name) && { ...asJob(byName.get(name), now), definition: { params: [{ name: "FORMAT", default: "csv", schema: { enum: ["csv", "json"] }, description: "The format of the export" }, { name: "ROWS", default: "100", schema: { type: "integer", minimum: 1, maximum: 10000 }, description: "" }, { name: "FORCE", default: "false", schema: { type: "boolean" }, description: "" }, { name: "TARGET", default: null, schema: {}, description: "Where it goes" }], steps: [], handlers: {}, priority: 5 }, is_stale: false, problems: [], is_scheduler_running: true, text: `description: "${byName.get(name).description}"\nschedule: "*/5 * * * *"\ncatchupWindow: 6h\noverlapPolicy: all\nsteps:\n  - name: fetch\n    command: ./fetch.sh\n  - name: export\n    command: ./export.sh\n    depends: fetch\n`, file: `jobs/${name}.yaml` }],
  [/^\/jobs\/([^/]+)\/explain$/, () => [["enabled", "yes", "default"], ["timezone", "Europe/Berlin", "jobs/report.yaml:3"], ["start.0", "*/5 * * * *", "jobs/report.yaml:4"], ["missed", "all", "jobs/report.yaml:6"], ["catchup_window", "6h", "jobs/report.yaml:5"], ["overlap", "wait", "jobs/report.yaml:6"], ["grace", "30s", "default"], ["retry.max_retries", "0", "default of the plain form"]].map(([name, value, origin]) => ({ name, value, origin }))],
  [/^\/jobs\/([^/]+)\/graph$/, () => ({ nodes: STEPS.map(([name, depends]) => ({ name, kind: "command", depends, summary: `./${name}.sh --all` })), edges: STEPS.flatMap(([to, depends]) => depends.map((from) => ({ from, to }))), handlers: { on_failure: { name: "alert", kind: "command", depends: [], summary: "./alert.sh" } }, runs_after: ["nightly-build"], runs_before: ["mail-digest"] })],
  [/^\/jobs\/([^/]+)\/upcoming$/, ([name], query, now) => { const job = byName.get(name) ?? jobs[0]; return { items: Array.from({ length: Number(query.get("count") ?? 10) }, (_, index) => fire(first(job, now) + index * job.every, job, now)) }; }],
  [/^\/jobs\/([^/]+)\/why$/, ([name], query, now) => ({ job: name, scheduled_for: query.get("at"), timezone: "Europe/Berlin", outcome: "skipped", verdict: "skipped: overlap", reason: "overlap", sentences: ["decided 09:05:00 on node node-1; the run of 09:00 was still running (09:00:00 to 09:06:12)", "policy: overlap skip, from default", "to run it now: evertick backfill report --from 2026-03-02T09:05 --to 2026-03-02T09:06"], run: null, other_run: null, nearest_before: null, nearest_after: null })],
  [/^\/jobs\/([^/]+)\/calendar$/, ([name], query, now) => calendar([byName.get(name) ?? jobs[0]], query, now)],
  [/^\/calendar$/, (_, query, now) => calendar(jobs, query, now)],
  [/^\/jobs\/([^/]+)\/durations$/, ([name], query, now) => { const job = byName.get(name) ?? jobs[0]; const items = recent(job, 120, now).reverse().filter((one) => one.finished).map((one) => asMark(job, one)); const sorted = items.map((one) => one.duration_seconds).sort((a, b) => a - b), at = (share) => sorted[Math.floor(share * (sorted.length - 1))]; const of = { p10: at(0.1), p50: at(0.5), p90: at(0.9), p99: at(0.99), least: sorted[0], most: sorted.at(-1) }; return { runs: items, durations: of, lateness: { ...of, p50: 0.002, p99: 0.03, most: 4.2 }, success_rate: 0.972 }; }],
  [/^\/jobs\/([^/]+)\/catchup$/, (_, query, now) => ({ watermark: iso(now - 3 * HOUR), paused_at: iso(now - 3 * HOUR), kept: query.get("keep") === "none" ? 0 : query.get("keep") === "latest" ? 1 : 3, skipped: query.get("keep") === "none" ? 3 : 0, timezone: "UTC", backlog: [], fates: [3, 2, 1].map((hours) => ({ scheduled_for: iso(start - hours * HOUR), what: query.get("keep") !== "none" ? "run" : "skip: paused", detail: "missed by 2h", reason: query.get("keep") === "none" ? "paused" : null, through: null, occurrences: 1 })) })],
  [/^\/jobs\/([^/]+)\/backfill$/, (_, query, now, body) => ({ request: body.preview ? null : "r-1", timezone: "UTC", occurrences: 24, runs: 6, candidates: Array.from({ length: 24 }, (_, index) => ({ scheduled_for: iso(Date.parse(body.start) + index * HOUR), local: iso(Date.parse(body.start) + index * HOUR).slice(0, 19).replace("T", " "), what: index % 4 === 1 ? "run" : "leave", why: index % 4 === 1 ? "skipped: missed" : "succeeded (scheduler)" })) })],
  [/^\/jobs\/([^/]+)\/(trigger|pause|resume|cancel)$/, ([name]) => ({ request: "r-1", job: name, is_answered: true, is_scheduler_running: true, answer: { run: `${name}@${iso(start)}` } })],
  [/^\/runs$/, (_, query, now) => { const list = (query.get("job") ? [byName.get(query.get("job"))].filter(Boolean) : jobs.slice(0, 60)).flatMap((job) => recent(job, query.get("job") ? 200 : 12, now).map((one) => asRun(job, one))).filter((run) => (!query.getAll("state").length || query.getAll("state").includes(run.state)) && (!query.get("trigger") || query.getAll("trigger").includes(run.trigger))).sort((one, other) => (one.scheduled_for < other.scheduled_for ? 1 : -1)); return page(list, query); }],
  [/^\/ledger$/, (_, query, now) => { const job = byName.get(query.get("job")) ?? jobs[0]; return page(recent(job, 200, now).map((one) => asRun(job, one)), query); }],
  [/^\/runs\/([^/]+)$/, ([id], _, now) => runDetail(id, now)],
  [/^\/runs\/([^/]+)\/logs\/([^/]+)\/([^/]+)$/, (_, query) => { const offset = Number(query.get("offset") ?? 0), limit = Number(query.get("limit") ?? 65536), text = LOG.slice(offset, offset + limit); return { text, offset, next_offset: offset + text.length, size: LOG.length, is_complete: offset + text.length >= LOG.length }; }],
  [/^\/runs\/([^/]+)\/(cancel|retry)$/, ([id]) => ({ request: "r-1", job: id, is_answered: true, is_scheduler_running: true, answer: { run: id } })],
  [/^\/upcoming$/, (_, query, now) => ({ items: jobs.flatMap((job) => Array.from({ length: 30 }, (_, index) => fire(first(job, now) + index * job.every, job, now))).sort((a, b) => (a.scheduled_for < b.scheduled_for ? -1 : 1)).slice(0, Number(query.get("count") ?? 20)) })],
  [/^\/cron$/, (_, query, now) => ({ expression: query.get("expression"), timezone: query.get("timezone"), meaning: "At 02:30 on every day-of-week from Monday through Friday", fields: { second: "0", minute: "30", hour: "2", day_of_month: "*", month: "*", day_of_week: "MON-FRI" }, next: Array.from({ length: Number(query.get("count") ?? 20) }, (_, index) => fire(start + 3 * HOUR + index * DAY, jobs[0], now)), dst_notes: [{ at: iso(now + 100 * DAY), local: "2027-03-28 03:00:00", text: "2027-03-28: 02:30 is skipped; it fires once, at 03:00" }] })],
  [/^\/executors$/, (_, query, now) => ({ is_scheduler_running: true, items: [{ executor: "local", is_known: true, active: 3, runs: jobs.slice(0, 3).map((job) => asRun(job, recent(job, 1, now)[0])), state: "alive" }, { executor: "fleet", is_known: true, active: 9, runs: [], state: "alive", members: [["worker-1", "alive", 7], ["worker-2", "draining", 2], ["worker-3", "lost", 0]].map(([name, state, load]) => ({ name, address: "tls://10.0.0.4:8788", state, load, capacity: 8, labels: ["gpu", "eu"] })) }] })],
  [/^\/nodes$/, (_, query, now) => ({ is_scheduler_running: true, items: [{ node: "node-1", is_alive: true, buckets: 40, lease_until: iso(now + 9000) }, { node: "node-2", is_alive: true, buckets: 24, lease_until: iso(now + 8000) }] })],
  [/^\/queues$/, (_, query, now) => ({ is_scheduler_running: true, items: [{ queue: "database", limit: 2, jobs: jobs.slice(0, 5).map((job) => job.job), active: jobs.slice(0, 2).map((job) => asRun(job, { ...recent(job, 1, now)[0], state: "running" })), active_count: 2, waiting: jobs.slice(2, 5).map((job) => ({ ...asRun(job, { ...recent(job, 1, now)[0], state: "waiting" }), detail: "the 2 places of queue 'database' are taken" })), waiting_count: 3 }, { queue: "gpu", limit: 1, jobs: ["train-model"], active: [], active_count: 0, waiting: [], waiting_count: 0 }] })],
  [/^\/settings$/, () => [["timezone", "Europe/Berlin", "system", "evertick.toml:2", "The zone of jobs that name none"], ["preread", "5s", "5s", "default", "How far ahead occurrences are entered"], ["smtp.password", "•••", null, "EVERTICK_SMTP_PASSWORD", "Never shown"]].map(([name, value, fallback, origin, meaning]) => ({ name, value, default: fallback, origin, meaning }))],
  [/^\/audit$/, (_, query, now) => ({ ...page(Array.from({ length: 120 }, (_, index) => ({ number: 120 - index, at: iso(now - index * 17 * MINUTE), by: ["admin", "deploy-bot"][index % 2], action: ["trigger", "pause", "resume", "sign in"][index % 4], target: jobs[index % jobs.length].job, detail: index % 4 === 1 ? { note: "until the migration is done" } : {}, hash: Math.round(noise("a" + index) * 1e12).toString(16) })), query), is_sound: true })],
  [/^\/zones$/, () => ["UTC", ...ZONES, "Europe/London", "Pacific/Auckland"]],
];

export async function answer(request, response) {
  const address = new URL(request.url, "http://localhost");
  if (address.pathname === "/events") {
    response.writeHead(200, { "content-type": "text/event-stream" });
    const timer = setInterval(() => response.write(`event: run\ndata: ${JSON.stringify({ id: 1, type: "run", job: jobs[Math.floor(Math.random() * Math.min(20, jobs.length))].job })}\n\n`), 2000);
    return void request.on("close", () => clearInterval(timer));
  }
  let text = "";
  for await (const chunk of request) text += chunk;
  const path = address.pathname.split("/").map(encodeURIComponent).join("/").replaceAll("%25", "%");
  for (const [pattern, give] of ROUTES) {
    const found = pattern.exec(path);
    const body = found && give(found.slice(1).map(decodeURIComponent), address.searchParams, Date.now(), text ? JSON.parse(text) : {});
    if (!body) continue;
    response.setHeader("content-type", "application/json");
    return void response.end(JSON.stringify(body));
  }
  response.writeHead(404, { "content-type": "application/problem+json" });
  response.end(JSON.stringify({ title: "Not found", detail: `there is no ${address.pathname}`, status: 404 }));
}
