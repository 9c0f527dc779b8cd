/** The pages, in the order of how often they are used. */

import type { IconName } from "./ui/icon";

export interface Target {
  path: string;
  name: string;
  icon: IconName;
  /** Behind `g`. */
  key: string;
}

export const NAVIGATION: readonly (readonly Target[])[] = [
  [
    { path: "/", name: "Timeline", icon: "timeline", key: "h" },
    { path: "/overview", name: "Overview", icon: "overview", key: "o" },
    { path: "/jobs", name: "Jobs", icon: "jobs", key: "j" },
    { path: "/runs", name: "Runs", icon: "runs", key: "r" },
    { path: "/calendar", name: "Calendar", icon: "calendar", key: "c" },
    { path: "/upcoming", name: "Upcoming", icon: "upcoming", key: "u" },
    { path: "/cron", name: "Cron", icon: "cron", key: "p" },
  ],
  [
    { path: "/executors", name: "Executors", icon: "executors", key: "e" },
    { path: "/queues", name: "Queues", icon: "queues", key: "q" },
    { path: "/audit", name: "Audit", icon: "audit", key: "a" },
    { path: "/settings", name: "Settings", icon: "settings", key: "s" },
  ],
];

export const TARGETS: readonly Target[] = NAVIGATION.flat();
