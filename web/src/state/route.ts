/** Where the page is: the address bar is the only place that knows. */

import { signal } from "@preact/signals";
import { askForPage } from "../api/client";

export interface Place {
  path: string;
  query: URLSearchParams;
}

function read(): Place {
  return { path: location.pathname, query: new URLSearchParams(location.search) };
}

export const place = signal<Place>(read());

export function go(target: string, replace = false): void {
  const here = location.pathname + location.search;
  if (target === here) return;
  history[replace ? "replaceState" : "pushState"](null, "", target);
  const movedTo = read();
  const isNewPage = movedTo.path !== place.value.path;
  if (isNewPage) askForPage(movedTo.path, movedTo.query);
  place.value = movedTo;
  if (isNewPage) document.querySelector("main")?.scrollTo(0, 0);
}

/** Change parts of the query and stay on the page; filters are in the address, so that they can be shared. */
export function setQuery(changes: Record<string, string | null>): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  go(location.pathname + (text ? `?${text}` : ""), true);
}

export function startRouting(): void {
  window.addEventListener("popstate", () => (place.value = read()));
  document.addEventListener("click", (event) => {
    const link = event.defaultPrevented ? null : followed(event);
    if (!link) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
  // A press lasts a tenth of a second: by its end the answers are nearly there. A touch may as well begin a scroll.
  document.addEventListener("pointerdown", (event) => {
    const link = event.pointerType === "touch" ? null : followed(event);
    if (link && link.pathname !== location.pathname) askForPage(link.pathname, new URLSearchParams(link.search));
  });
}

/** The link to a page that a click follows here. */
function followed(event: MouseEvent): HTMLAnchorElement | null {
  if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return null;
  const link = (event.target as Element).closest?.("a[href]");
  if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download")) return null;
  return link.origin !== location.origin || link.pathname.startsWith("/api/") ? null : link;
}

export const jobPath = (job: string): string => `/jobs/${encodeURIComponent(job)}`;
export const runPath = (run: string): string => `/runs/${encodeURIComponent(run)}`;
