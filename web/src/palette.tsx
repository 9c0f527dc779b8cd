/** The command palette: every page, every job, every action, a few letters away. */

import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { get, knownJobs, withQuery } from "./api/client";
import type { Job, JobPage } from "./api/types";
import { askedAction, type Action } from "./actions";
import { TARGETS } from "./navigation";
import { go, jobPath } from "./state/route";
import { may } from "./state/session";
import { theme } from "./state/theme";
import { zoneChoice } from "./state/zone";
import { Icon, type IconName } from "./ui/icon";

export const isPaletteOpen = signal(false);

interface Offer {
  id: string;
  /** Of an offer to do something to a job. */
  action?: Action;
  text: string;
  about: string;
  icon: IconName;
  act: () => void;
}

function pages(): Offer[] {
  return [
    ...TARGETS.map((target): Offer => ({ id: target.path, text: target.name, about: "Page", icon: target.icon, act: () => go(target.path) })),
    { id: "dark", text: "Dark theme", about: "Look", icon: "moon", act: () => (theme.value = "dark") },
    { id: "light", text: "Light theme", about: "Look", icon: "sun", act: () => (theme.value = "light") },
    { id: "utc", text: "Times in UTC", about: "Zone", icon: "globe", act: () => (zoneChoice.value = "utc") },
    { id: "local", text: "Times in local time", about: "Zone", icon: "globe", act: () => (zoneChoice.value = "local") },
    { id: "job-zone", text: "Times in each job's zone", about: "Zone", icon: "globe", act: () => (zoneChoice.value = "job") },
  ];
}

function offersOf(job: Job): Offer[] {
  const offers: Offer[] = [{ id: job.job, text: job.name, about: [job.name === job.job ? "" : job.job, job.description || "Job"].filter(Boolean).join(" · "), icon: "jobs", act: () => go(jobPath(job.job)) }];
  if (!may("operator") || job.retired_at) return offers;
  const add = (action: Action, text: string, icon: IconName) =>
    offers.push({ id: `${action} ${job.job}`, action, text: `${text} ${job.name}`, about: job.name === job.job ? "Action" : job.job, icon, act: () => (askedAction.value = { action, job: job.job }) });
  add("trigger", "Run", "runs");
  if (job.paused_at) add("resume", "Resume", "upcoming");
  else add("pause", "Pause", "minus");
  return offers;
}

const VERBS: Record<string, Action> = { run: "trigger", pause: "pause", resume: "resume" };

/** "run report" asks for the offer of that name: what to do, and the words that the job is found by. */
export function parseWanted(text: string): { action: Action | null; rest: string } {
  const wanted = text.trim().toLowerCase();
  const [first = "", ...others] = wanted.split(/\s+/);
  const action = VERBS[first] ?? null;
  return { action, rest: action ? others.join(" ") : wanted };
}

const PAUSE_MS = 120;
const JOBS_MAX = 8;

/** Of the jobs that the page knows, those that fit, as the server would list them. */
function fittingJobs(known: Iterable<Job>, rest: string): Job[] {
  const isFitting = (job: Job) => [job.job, job.name, job.description, ...job.tags].some((one) => one.toLowerCase().includes(rest));
  const found = new Map([...known].filter((job) => !job.retired_at && isFitting(job)).map((job) => [job.job, job]));
  return [...found.values()].sort((one, other) => (one.job < other.job ? -1 : 1)).slice(0, JOBS_MAX);
}

export function Palette() {
  const [text, setText] = useState("");
  const [found, setFound] = useState<{ rest: string | null; jobs: Job[] }>({ rest: null, jobs: [] });
  const [chosen, setChosen] = useState(0);
  const isBehind = useRef(false);
  const box = useRef<HTMLDialogElement>(null);
  const close = () => (isPaletteOpen.value = false);
  useEffect(() => box.current?.showModal(), []);
  const { action, rest } = parseWanted(text);
  // Before the frame with the letter is drawn.
  useLayoutEffect(() => {
    const abort = new AbortController();
    const search = () => {
      isBehind.current = true;
      get<JobPage>(withQuery("/jobs", { search: rest, limit: JOBS_MAX }), abort.signal).then(
        (page) => ((isBehind.current = false), setFound({ rest, jobs: page.items })),
        () => undefined,
      );
    };
    // A server that keeps up is asked at each letter, a slower one when the typing pauses.
    const timer = isBehind.current ? window.setTimeout(search, PAUSE_MS) : search();
    return () => (clearTimeout(timer ?? undefined), abort.abort());
  }, [rest]);

  const wanted = text.trim().toLowerCase();
  const fitting = pages().filter((offer) => offer.text.toLowerCase().includes(wanted));
  // Until the answer to the last letter is there, those that fit are found among the jobs that the page knows.
  const known = found.rest === rest ? found.jobs : fittingJobs([...found.jobs, ...knownJobs()], rest);
  const ofJobs = known.flatMap((job) => {
    const offers = offersOf(job);
    const isNamedSo = [job.job, job.name].some((one) => one.toLowerCase().includes(wanted));
    if (action && !isNamedSo) return offers.filter((offer) => offer.action === action);
    return wanted ? offers : offers.slice(0, 1);
  });
  const offers = (rest ? [...ofJobs, ...fitting] : [...(wanted ? fitting : fitting.slice(0, TARGETS.length)), ...ofJobs]).slice(0, 24);
  const at = Math.min(chosen, Math.max(offers.length - 1, 0));
  useEffect(() => document.getElementById(`offer-${at}`)?.scrollIntoView({ block: "nearest" }), [at]);

  const press = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setChosen((at + 1) % Math.max(offers.length, 1));
    else if (event.key === "ArrowUp") setChosen((at + offers.length - 1) % Math.max(offers.length, 1));
    else if (event.key === "Enter") pick(offers[at]);
    else return;
    event.preventDefault();
  };
  const pick = (offer: Offer | undefined) => {
    close();
    offer?.act();
  };
  return (
    <dialog ref={box} class="palette" aria-label="Search jobs, pages and actions" onCancel={close} onClose={close} onMouseDown={(event) => event.target === box.current && close()}>
      <div class="palette-field row">
        <Icon name="search" />
        <input
          autofocus
          role="combobox"
          aria-expanded="true"
          aria-controls="offers"
          aria-activedescendant={offers.length ? `offer-${at}` : undefined}
          aria-label="Search jobs, pages and actions"
          placeholder="Search jobs, pages and actions"
          value={text}
          onInput={(event) => (setText(event.currentTarget.value), setChosen(0))}
          onKeyDown={press}
        />
        <kbd>Esc</kbd>
      </div>
      <ul id="offers" role="listbox" aria-label="Results">
        {offers.map((offer, index) => (
          <li
            key={offer.id}
            id={`offer-${index}`}
            role="option"
            aria-selected={index === at}
            onMouseMove={() => setChosen(index)}
            onClick={() => pick(offer)}
          >
            <Icon name={offer.icon} />
            <span class="cut">{offer.text}</span>
            <span class="quiet small cut grow right">{offer.about}</span>
          </li>
        ))}
      </ul>
      {!offers.length && <p class="quiet palette-none">No results for “{text}”.</p>}
    </dialog>
  );
}
