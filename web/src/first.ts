/** The first script: before anything is painted it sets the theme, and asks for what the page will show first.
 *
 * It is small and waits for nothing, so its questions are answered while the page's own code still arrives.
 */

import { askAhead } from "./api/ahead";
import { firstQuestions } from "./api/questions";
import { knownStage, readKept } from "./state/storage";

/** Filled in when the page is built: the files of each page that is not part of the first download. */
declare const PAGE_FILES: Record<string, readonly string[]>;

const theme = readKept("theme");
if (theme === "light" || theme === "dark") document.documentElement.dataset["theme"] = theme;

// Who was not signed in would be refused.
if (readKept("session") === "open" && !location.hash.includes("token=")) {
  for (const question of firstQuestions(location.pathname, new URLSearchParams(location.search), Date.now(), knownStage())) askAhead(question);
  const [page = "", id] = location.pathname.split("/").filter(Boolean);
  for (const file of PAGE_FILES[id ? `${page}/` : page] ?? []) {
    const link = document.createElement("link");
    link.rel = "modulepreload";
    link.href = file;
    document.head.append(link);
  }
}
