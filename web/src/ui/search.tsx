/** A search field: the first letter is searched for at once, those after it when the typing pauses. */

import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Icon } from "./icon";

interface Props {
  label: string;
  value: string;
  onSearch: (text: string) => void;
  /** What the browser offers to complete it with. */
  offers?: string[];
}

const PAUSE_MS = 180;

export function Search({ label, value, onSearch, offers }: Props) {
  const list = useId();
  const [text, setText] = useState(value);
  const last = useRef(-Infinity);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return;
    const isFirst = performance.now() - last.current > PAUSE_MS;
    last.current = performance.now();
    if (isFirst) return onSearch(text);
    const timer = window.setTimeout(() => onSearch(text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <div class="search">
      <Icon name="search" />
      <input type="search" aria-label={label} placeholder={label} value={text} list={offers ? list : undefined} onInput={(event) => setText(event.currentTarget.value)} />
      {offers && (
        <datalist id={list}>
          {offers.map((offer) => (
            <option key={offer} value={offer} />
          ))}
        </datalist>
      )}
    </div>
  );
}
