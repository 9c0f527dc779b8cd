/** Where the page is: the address bar is the only place that knows. */

import { signal } from "@preact/signals";

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
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const link = (event.target as Element).closest?.("a[href]");
    if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download")) return;
    if (link.origin !== location.origin || link.pathname.startsWith("/api/")) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}

export const jobPath = (job: string): string => `/jobs/${encodeURIComponent(job)}`;
export const runPath = (run: string): string => `/runs/${encodeURIComponent(run)}`;
