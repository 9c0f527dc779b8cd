/** A search field that waits for a pause in the typing. */

import { useEffect, useId, useState } from "preact/hooks";
import { Icon } from "./icon";

interface Props {
  label: string;
  value: string;
  onSearch: (text: string) => void;
  /** What the browser offers to complete it with. */
  offers?: string[];
}

export function Search({ label, value, onSearch, offers }: Props) {
  const list = useId();
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return;
    const timer = window.setTimeout(() => onSearch(text), 180);
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
