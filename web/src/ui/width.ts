/** How wide an element is inside, and whether the screen has room. */

import { signal, type Signal } from "@preact/signals";
import type { RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

export function useWidth<T extends HTMLElement>(): [RefObject<T>, number] {
  const box = useRef<T>(null);
  const [width, setWidth] = useState(0);
  // Before it is painted: what is drawn for another width first would move.
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    setWidth(element.clientWidth);
    const watch = new ResizeObserver(([entry]) => entry && setWidth(Math.floor(entry.contentRect.width)));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  return [box, width];
}

/** Whether the screen is as wide as that. */
export function isAtLeast(width: number): Signal<boolean> {
  const query = matchMedia(`(min-width: ${width}px)`);
  const found = signal(query.matches);
  query.addEventListener("change", () => (found.value = query.matches));
  return found;
}
