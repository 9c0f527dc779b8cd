/** What can be done with the timeline without knowing its keys. */

import type { ComponentChildren } from "preact";
import { setQuery } from "../state/route";
import { may } from "../state/session";
import { span } from "../time/words";
import { PRESETS } from "../time/window";
import { Icon } from "../ui/icon";
import { Button, Choice } from "../ui/parts";
import type { Engine } from "./engine";
import { Legend } from "./legend";

interface Props {
  engine: Engine | null;
  view: "timeline" | "table";
  children: ComponentChildren;
}

export function Toolbar({ engine, view, children }: Props) {
  engine?.version.value;
  const shown = engine?.span ?? 0;
  const near = PRESETS.find((preset) => Math.abs(Math.log(shown / preset.span)) < 0.05);
  return (
    <div class="toolbar">
      <div class="toolbar-jobs">{children}</div>
      <div class="toolbar-time">
        <div class="row">
          <Button isSmall kind="bare" label="Earlier" tip="Earlier (Shift ←)" onClick={() => engine?.panBy(-0.5)}>
            <Icon name="left" />
          </Button>
          <button
            type="button"
            class={engine?.isFollowing.value ? "button is-small is-now is-on" : "button is-small is-now"}
            aria-pressed={engine?.isFollowing.value ?? true}
            data-tip="Follow the current time (N)"
            onClick={() => engine?.follow()}
          >
            Now
          </button>
          <Button isSmall kind="bare" label="Later" tip="Later (Shift →)" onClick={() => engine?.panBy(0.5)}>
            <Icon name="right" />
          </Button>
        </div>
        <div class="choice" role="group" aria-label="Time range">
          {PRESETS.map((preset) => (
            <button
              key={preset.label}
              type="button"
              aria-pressed={near === preset}
              aria-label={`${preset.label}: show ${preset.words}`}
              onClick={() => engine?.showSpan(preset.span)}
            >
              {preset.label}
            </button>
          ))}
        </div>
        <div class="row">
          <Button isSmall kind="bare" label="Zoom out" tip="Zoom out (−)" onClick={() => engine?.zoomBy(2)}>
            <Icon name="minus" />
          </Button>
          <span class="toolbar-span quiet small">{engine ? span(shown) : ""}</span>
          <Button isSmall kind="bare" label="Zoom in" tip="Zoom in (+)" onClick={() => engine?.zoomBy(0.5)}>
            <Icon name="plus" />
          </Button>
        </div>
      </div>
      <div class="toolbar-view">
        {may("operator") && engine && (
          <Button isSmall tip="Drag over some jobs and a period, then retry failed runs, backfill, or cancel waiting runs. Also: Shift and drag. Key A selects everything shown" onClick={() => (engine.isChoosing.value = !engine.isChoosing.value)}>
            {engine.isChoosing.value ? "Drag a period" : "Act on a period"}
          </Button>
        )}
        <Legend />
        <Choice
          label="Show as"
          value={view}
          options={[
            { value: "timeline", text: "Timeline" },
            { value: "table", text: "Table", tip: "The same data as text" },
          ]}
          onPick={(value) => setQuery({ view: value === "table" ? "table" : null })}
        />
      </div>
    </div>
  );
}
