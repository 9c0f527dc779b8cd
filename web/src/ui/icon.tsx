/** The few pictures of the page. */

import type { Look } from "./outcomes";
import { SHAPES } from "./shapes";

const PATHS = {
  timeline: "M2 4h6M10 4h4M2 8h3M7 8h7M2 12h8M12 12h2",
  overview: "M2 2h5v5H2ZM9 2h5v5H9ZM2 9h5v5H2ZM9 9h5v5H9Z",
  jobs: "M3 4h10M3 8h10M3 12h10",
  runs: "M4 2.5 13 8 4 13.5Z",
  calendar: "M2.5 4h11v9.5h-11ZM2.5 7h11M5.5 2v3M10.5 2v3",
  upcoming: "M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2ZM8 5v3.2l2.2 1.6",
  cron: "M3 3.2 7 8l-4 4.8M8.5 12.8H13",
  executors: "M2.5 3h11v4h-11ZM2.5 9h11v4h-11ZM5 5h.1M5 11h.1",
  queues: "M3 3v10M6.5 3v10M10 3v10M13.2 5.5v5",
  audit: "M4 2h8v12H4ZM6 5h4M6 8h4M6 11h2.5",
  settings: "M2 5h7M12 5h2M2 11h2M7 11h7M10.5 3.2a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6ZM5.5 9.2a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6Z",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9ZM10.4 10.4 14 14",
  close: "M4 4l8 8M12 4l-8 8",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  more: "M3.5 8h.1M8 8h.1M12.5 8h.1",
  left: "M10 3 5 8l5 5",
  right: "M6 3l5 5-5 5",
  down: "M3 6l5 5 5-5",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  sun: "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6ZM8 1.4v1.4M8 13.2v1.4M1.4 8h1.4M13.2 8h1.4M3.3 3.3l1 1M11.7 11.7l1 1M12.7 3.3l-1 1M4.3 11.7l-1 1",
  moon: "M13 9.6A5.6 5.6 0 0 1 6.4 3 5.6 5.6 0 1 0 13 9.6Z",
  half: "M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2ZM8 2.2v11.6M8 5h4.9M8 8h5.8M8 11h4.9",
  download: "M8 2.5v7.5M4.8 7 8 10.2 11.2 7M3 13.2h10",
  globe: "M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2ZM2.4 8h11.2M8 2.2c4 4 4 7.6 0 11.6M8 2.2c-4 4-4 7.6 0 11.6",
  table: "M2.5 3h11v10h-11ZM2.5 6.3h11M2.5 9.6h11M6.5 6.3V13",
  key: "M10.5 2.5a3 3 0 1 0 0 6 3 3 0 0 0 0-6ZM8.3 7.7 2.800 13.200M4.400 11.6l1.5 1.5",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

/** An outcome's shape in its colour. */
export function Glyph({ look, size = 12, isHatched = false }: { look: Look; size?: number; isHatched?: boolean }) {
  const { body, line } = SHAPES[look.shape];
  return (
    <svg class={`glyph is-${look.color}`} width={size} height={size} viewBox="0 0 16 16" aria-hidden="true">
      {body && <path class="body" d={body} />}
      {line && <path class={body ? "line over" : "line"} d={line} />}
      {isHatched && <path class="hatch" d="M1 9 9 1M3 13 13 3M7 15l8-8" />}
    </svg>
  );
}
