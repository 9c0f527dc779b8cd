/** One tooltip for the whole page: whatever has `data-tip` shows it when pointed at or focused. */

let tip: HTMLElement | null = null;
let owner: Element | null = null;

function element(): HTMLElement {
  if (!tip) {
    tip = document.createElement("div");
    tip.className = "tip";
    tip.setAttribute("role", "tooltip");
    tip.id = "tip";
    tip.hidden = true;
    document.body.append(tip);
  }
  // Inside an open dialog nothing outside of it can be seen.
  const host = document.querySelector("dialog[open]") ?? document.body;
  if (tip.parentElement !== host) host.append(tip);
  return tip;
}

/** Show lines at a point of the screen; used by drawings, which have no elements to point at. */
export function showTip(lines: string, x: number, y: number): void {
  const shown = element();
  shown.textContent = lines;
  shown.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = shown;
  const left = Math.min(Math.max(8, x - width / 2), innerWidth - width - 8);
  const isBelow = y - height - 12 < 8;
  shown.style.left = `${left}px`;
  shown.style.top = `${isBelow ? y + 18 : y - height - 12}px`;
}

export function hideTip(): void {
  if (tip) tip.hidden = true;
  owner = null;
}

function point(event: Event): void {
  const found = event.target instanceof Element ? event.target.closest("[data-tip]") : null;
  if (found === owner) return;
  hideTip();
  const text = found?.getAttribute("data-tip");
  if (!found || !text) return;
  owner = found;
  const box = found.getBoundingClientRect();
  showTip(text, box.left + box.width / 2, box.top);
}

export function startTips(): void {
  document.addEventListener("pointerover", point);
  document.addEventListener("focusin", point);
  document.addEventListener("focusout", hideTip);
  document.addEventListener("scroll", hideTip, true);
  document.addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
}
