/** A search field that waits for a pause in the typing. */

import { useEffect, useState } from "preact/hooks";
import { Icon } from "./icon";

export function Search({ label, value, onSearch }: { label: string; value: string; onSearch: (text: string) => void }) {
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
      <input type="search" aria-label={label} placeholder={label} value={text} onInput={(event) => setText(event.currentTarget.value)} />
    </div>
  );
}
