/** Keys that work everywhere, and the list of them behind '?'. */

import { signal } from "@preact/signals";
import { TARGETS } from "./navigation";
import { isPaletteOpen } from "./palette";
import { go } from "./state/route";
import { Dialog } from "./ui/dialog";

const isHelpOpen = signal(false);
let afterG = 0;

export function listenToKeys(): () => void {
  document.addEventListener("keydown", press);
  return () => document.removeEventListener("keydown", press);
}

function press(event: KeyboardEvent): void {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    isPaletteOpen.value = !isPaletteOpen.value;
    return;
  }
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
  if (Date.now() - afterG < 1_500) {
    afterG = 0;
    const target = TARGETS.find((one) => one.key === event.key);
    if (target) return void (event.preventDefault(), go(target.path));
  }
  switch (event.key) {
    case "g":
      afterG = Date.now();
      return;
    case "?":
      isHelpOpen.value = true;
      return;
    case "/": {
      event.preventDefault();
      const field = document.querySelector<HTMLInputElement>("main input[type=search]");
      if (field) field.focus();
      else isPaletteOpen.value = true;
      return;
    }
    case "b":
      document.querySelector<HTMLElement>(".bulk-bar button")?.focus();
      return;
    case "j":
    case "k":
      moveInTable(event.key === "j" ? 1 : -1);
  }
}

function isTyping(target: EventTarget | null): boolean {
  if (target instanceof HTMLInputElement && /^(checkbox|radio)$/.test(target.type)) return false;
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/** From row to row of the page's first table. */
function moveInTable(sign: number): void {
  const links = [...document.querySelectorAll<HTMLAnchorElement>("main tbody tr a:first-of-type")].filter(
    (link, index, all) => link.closest("tr") !== all[index - 1]?.closest("tr"),
  );
  const here = links.findIndex((link) => link.closest("tr")?.contains(document.activeElement));
  links[here < 0 ? 0 : here + sign]?.focus();
}

export function Keys() {
  if (!isHelpOpen.value) return null;
  return (
    <Dialog title="Keys" onClose={() => (isHelpOpen.value = false)}>
      <dl class="keys">
        <Line keys={["Ctrl", "K"]} text="Search jobs, pages and actions" />
        <Line keys={["/"]} text="Search this page" />
        <Line keys={["j"]} text="Next row" />
        <Line keys={["k"]} text="Previous row" />
        <Line keys={["b"]} text="Go to the actions on what is selected" />
        <Line keys={["?"]} text="Show this list" />
        {TARGETS.map((target) => (
          <Line key={target.key} keys={["g", target.key]} text={target.name} />
        ))}
      </dl>
      <h3>On the timeline</h3>
      <dl class="keys">
        <Line keys={["←", "→"]} text="Previous or next run" />
        <Line keys={["↑", "↓"]} text="Previous or next job" />
        <Line keys={["+", "−"]} text="Zoom" />
        <Line keys={["Shift", "←"]} text="Earlier" />
        <Line keys={["n"]} text="Back to now" />
        <Line keys={["Enter"]} text="Open" />
        <Line keys={["a"]} text="Retry, backfill or cancel what is shown" />
      </dl>
    </Dialog>
  );
}

function Line({ keys, text }: { keys: string[]; text: string }) {
  return (
    <div>
      <dt>
        {keys.map((key) => (
          <kbd key={key}>{key}</kbd>
        ))}
      </dt>
      <dd>{text}</dd>
    </div>
  );
}
