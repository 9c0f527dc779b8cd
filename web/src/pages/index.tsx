/** Which page an address shows. Those that need more code load it when they are opened. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { askedAction } from "../actions";
import type { Place } from "../state/route";
import { Empty, Loading } from "../ui/parts";
import { PageBody } from "../app";
import { Home } from "./home";

type PageProps = { id: string; query: URLSearchParams };
type Load = () => Promise<ComponentType<PageProps>>;

const PAGES: Record<string, { title: string; load: Load }> = {
  overview: { title: "Overview", load: () => import("./overview").then((page) => page.OverviewPage) },
  jobs: { title: "Jobs", load: () => import("./jobs").then((page) => page.JobsPage) },
  "jobs/": { title: "Job", load: () => import("./job").then((page) => page.JobPage) },
  runs: { title: "Runs", load: () => import("./runs").then((page) => page.RunsPage) },
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
  const title = isHome ? "Ribbon" : id || page?.title || "Not found";
  useEffect(() => {
    document.title = `${title} · Evertick`;
  }, [title]);
  return (
    <>
      {isHome ? <Home query={place.query} /> : page ? <Later key={page.title} load={page.load} props={{ id, query: place.query }} /> : <NotFound />}
      {askedAction.value && <Later load={loadDialogs as unknown as Load} props={{ id: "", query: place.query }} isQuiet />}
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

const loaded = new Map<Load, ComponentType<PageProps>>();

function Later({ load, props, isQuiet }: { load: Load; props: PageProps; isQuiet?: boolean }) {
  const [, setTurn] = useState(0);
  const [problem, setProblem] = useState(false);
  const Part = loaded.get(load);
  useEffect(() => {
    if (loaded.has(load)) return;
    load().then(
      (part) => (loaded.set(load, part), setTurn((turn) => turn + 1)),
      () => setProblem(true),
    );
  }, [load]);
  if (Part) return <Part {...props} />;
  if (problem) {
    return (
      <PageBody>
        <Empty title="This page could not be loaded" isPage>The server may have been updated. Reload to get its new page.</Empty>
      </PageBody>
    );
  }
  return isQuiet ? null : (
    <PageBody>
      <Loading />
    </PageBody>
  );
}

function NotFound() {
  return (
    <PageBody>
      <Empty title="There is no such page" icon="search" isPage>
        <a href="/">Back to the ribbon</a>
      </Empty>
    </PageBody>
  );
}
