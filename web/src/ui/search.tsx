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
  const timer = useRef(0);
  const search = useRef(onSearch);
  search.current = onSearch;
  useEffect(() => {
    if (!timer.current) setText(value);
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  // Not in an effect of the text: those run after the next frame, and the question would leave that much later.
  const type = (typed: string) => {
    setText(typed);
    clearTimeout(timer.current);
    timer.current = 0;
    const isFirst = performance.now() - last.current > PAUSE_MS;
    last.current = performance.now();
    if (isFirst) return search.current(typed);
    timer.current = window.setTimeout(() => {
      timer.current = 0;
      search.current(typed);
    }, PAUSE_MS);
  };
  return (
    <div class="search">
      <Icon name="search" />
      <input type="search" aria-label={label} placeholder={label} value={text} list={offers ? list : undefined} onInput={(event) => type(event.currentTarget.value)} />
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
