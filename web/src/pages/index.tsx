/** Which page an address shows. Those that need more code load it when they are opened. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { askedAction, askedBulk } from "../actions";
import type { Place } from "../state/route";
import { Empty, Loading } from "../ui/parts";
import { PageBody } from "../app";
import { Home } from "./home";
import { JobsPage } from "./jobs";
import { OverviewPage } from "./overview";
import { RunsPage } from "./runs";

type PageProps = { id: string; query: URLSearchParams };
type Load = () => Promise<ComponentType<PageProps>>;

const loaded = new Map<Load, ComponentType<PageProps>>();

/** A page that is part of the first download: less code than a request for it would cost on a slow connection. */
function included(page: ComponentType<PageProps>): Load {
  const load = async () => page;
  loaded.set(load, page);
  return load;
}

const PAGES: Record<string, { title: string; load: Load }> = {
  overview: { title: "Overview", load: included(OverviewPage) },
  jobs: { title: "Jobs", load: included(JobsPage) },
  "jobs/": { title: "Job", load: () => import("./job").then((page) => page.JobPage) },
  runs: { title: "Runs", load: included(RunsPage) },
  "runs/": { title: "Run", load: () => import("./run").then((page) => page.RunPage) },
  calendar: { title: "Calendar", load: () => import("./calendar").then((page) => page.CalendarPage) },
  upcoming: { title: "Upcoming", load: () => import("./upcoming").then((page) => page.UpcomingPage) },
  cron: { title: "Cron", load: () => import("./cron").then((page) => page.CronPage) },
  executors: { title: "Executors", load: () => import("./executors").then((page) => page.ExecutorsPage) },
  queues: { title: "Queues", load: () => import("./queues").then((page) => page.QueuesPage) },
  audit: { title: "Audit", load: () => import("./audit").then((page) => page.AuditPage) },
  settings: { title: "Settings", load: () => import("./settings").then((page) => page.SettingsPage) },
};

const loadDialogs = () => import("../dialogs").then((part) => part.AskedDialog as ComponentType<Record<string, never>>);

export function PageOf({ place }: { place: Place }) {
  const [first = "", ...rest] = place.path.split("/").filter(Boolean);
  const id = decode(rest.join("/"));
  const page = PAGES[id ? `${first}/` : first];
  const isHome = first === "" || first === "login";
  const title = isHome ? "Timeline" : id || page?.title || "Not found";
  useEffect(() => {
    document.title = `${title} · Evertick`;
  }, [title]);
  return (
    <>
      {isHome ? <Home query={place.query} /> : page ? <Later key={page.title} load={page.load} props={{ id, query: place.query }} /> : <NotFound />}
      {(askedAction.value || askedBulk.value) && <Later load={loadDialogs as unknown as Load} props={{ id: "", query: place.query }} isQuiet />}
    </>
  );
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The code of a link's page comes when the link is pointed at or focused: before it is followed. */
export function loadAhead(): void {
  const aim = (event: Event) => {
    const link = event.target instanceof Element ? event.target.closest<HTMLAnchorElement>("a[href]") : null;
    if (!link || link.origin !== location.origin) return;
    const [first = "", id] = link.pathname.split("/").filter(Boolean);
    const load = PAGES[id ? `${first}/` : first]?.load;
    if (load && !loaded.has(load)) void load().then((page) => loaded.set(load, page), () => undefined);
  };
  for (const name of ["pointerover", "pointerdown", "focusin"]) document.addEventListener(name, aim, { passive: true });
}

/** Once nothing else is to be done, the code of the pages that people go to next; not on a line where each byte counts. */
export function loadWhenIdle(): void {
  const line = (navigator as { connection?: { saveData?: boolean; effectiveType?: string } }).connection;
  if (line?.saveData || (line?.effectiveType ?? "4g") !== "4g") return;
  for (const name of ["jobs/", "runs/"]) {
    const load = PAGES[name]?.load;
    if (load) void load().then((page) => loaded.set(load, page), () => undefined);
  }
}

const AGAIN_MS = 2_000;
const RELOADED = "evertick.reloaded";

function Later({ load, props, isQuiet }: { load: Load; props: PageProps; isQuiet?: boolean }) {
  const [, setTurn] = useState(0);
  const [problem, setProblem] = useState<"away" | "changed" | null>(null);
  const Part = loaded.get(load);
  useEffect(() => {
    if (loaded.has(load)) return;
    let isGone = false;
    void bring(load, setProblem, () => isGone).then(() => !isGone && (setProblem(null), setTurn((turn) => turn + 1)));
    return () => {
      isGone = true;
    };
  }, [load]);
  if (Part) return <Part {...props} />;
  if (problem) {
    return (
      <PageBody>
        <Empty title="Cannot load this page" isPage>
          {problem === "away" ? (
            "Cannot reach the server. The page loads when it responds."
          ) : (
            <>
              The server was updated. <a href="" onClick={() => location.reload()}>Reload</a> to get its new page.
            </>
          )}
        </Empty>
      </PageBody>
    );
  }
  return isQuiet ? null : (
    <PageBody>
      <Loading />
    </PageBody>
  );
}

/** Load a part of the page; while the server is down, wait until it responds. */
async function bring(load: Load, onProblem: (problem: "away" | "changed") => void, isGone: () => boolean): Promise<void> {
  for (;;) {
    try {
      loaded.set(load, await load());
      return;
    } catch {
      const isBack = await isReachable();
      if (isGone()) return;
      onProblem(isBack ? "changed" : "away");
      // A browser remembers that a part could not be loaded, so only a new start brings it: once, not in a circle.
      if (isBack && mayReload()) location.reload();
      if (isBack) return;
    }
    await new Promise((done) => setTimeout(done, AGAIN_MS));
    if (isGone()) return;
  }
}

async function isReachable(): Promise<boolean> {
  try {
    return (await fetch("/healthz", { cache: "no-store" })).status < 500;
  } catch {
    return false;
  }
}

function mayReload(): boolean {
  try {
    const last = Number(sessionStorage.getItem(RELOADED));
    sessionStorage.setItem(RELOADED, String(Date.now()));
    return Date.now() - last > 60_000;
  } catch {
    return false;
  }
}

function NotFound() {
  return (
    <PageBody>
      <Empty title="Page not found" icon="search" isPage>
        <a href="/">Back to the timeline</a>
      </Empty>
    </PageBody>
  );
}
