/** Parts of a page, one at a time; which one is in the address. */

import { setQuery } from "../state/route";

interface Props<T extends string> {
  label: string;
  tabs: readonly { id: T; name: string }[];
  value: T;
}

export function Tabs<T extends string>({ label, tabs, value }: Props<T>) {
  const move = (event: KeyboardEvent, index: number) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    const next = tabs[(index + step + tabs.length) % tabs.length];
    if (!step || !next) return;
    setQuery({ tab: next.id });
    document.getElementById(`tab-${next.id}`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label}>
      {tabs.map((tab, index) => (
        <button
          key={tab.id}
          id={`tab-${tab.id}`}
          type="button"
          role="tab"
          aria-selected={tab.id === value}
          aria-controls="tab-panel"
          tabIndex={tab.id === value ? 0 : -1}
          onClick={() => setQuery({ tab: index === 0 ? null : tab.id, at: null })}
          onKeyDown={(event) => move(event, index)}
        >
          {tab.name}
        </button>
      ))}
    </div>
  );
}
