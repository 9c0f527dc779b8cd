/** The cron playground: type an expression, see what it means and when it fires, computed by the scheduler's planner. */

import { useState } from "preact/hooks";
import { withQuery } from "../api/client";
import type { CronPreview } from "../api/types";
import { useApi } from "../api/use";
import { PageBody } from "../app";
import { FireLine } from "../charts/fireline";
import { setQuery } from "../state/route";
import { LOCAL_ZONE } from "../state/zone";
import { Fires } from "../ui/fires";
import { Card, Empty, Field, Head, Loading, Problem } from "../ui/parts";

const EXAMPLES = ["*/15 9-17 * * MON-FRI", "30 2 * * *", "0 0 L * *", "0 9 * * MON#1", "@hourly", "*/10 * * * * *", "0 12 1W * ?"];

export function CronPage({ query }: { query: URLSearchParams }) {
  const expression = query.get("expression") ?? "30 2 * * MON-FRI";
  const zone = query.get("timezone") ?? LOCAL_ZONE;
  const target = expression.trim() ? withQuery("/cron", { expression, timezone: zone, count: 20 }) : null;
  const { data, error } = useApi<CronPreview>(target);
  return (
    <PageBody>
      <Head title="Cron playground" about="Fire times come from the scheduler's own planner" />
      <Card>
        <div class="card-body cron-form">
          <Expression value={expression} onChange={(text) => setQuery({ expression: text })} />
          <ZoneField value={zone} onChange={(name) => setQuery({ timezone: name })} />
          <div class="row wrap cron-examples">
            <span class="quiet small">Try</span>
            {EXAMPLES.map((example) => (
              <button key={example} type="button" class="tag mono" onClick={() => setQuery({ expression: example })}>
                {example}
              </button>
            ))}
          </div>
        </div>
      </Card>
      {error && <Problem error={error} />}
      {!expression.trim() && <Empty title="Enter an expression" icon="cron" />}
      {!data && !error && target && <Loading />}
      {data && !error && <Answer answer={data} />}
    </PageBody>
  );
}

function Expression({ value, onChange }: { value: string; onChange: (text: string) => void }) {
  const [text, setText] = useState(value);
  const [known, setKnown] = useState(value);
  if (known !== value) {
    setKnown(value);
    setText(value);
  }
  return (
    <Field label="Expression" hint="minute, hour, day of month, month, day of week; with seconds first when there are six">
      <input
        class="mono cron-text"
        type="text"
        spellcheck={false}
        autocomplete="off"
        value={text}
        onInput={(event) => {
          const typed = event.currentTarget.value;
          setText(typed);
          setKnown(typed);
          onChange(typed);
        }}
      />
    </Field>
  );
}

function ZoneField({ value, onChange }: { value: string; onChange: (zone: string) => void }) {
  const zones = Intl.supportedValuesOf("timeZone");
  return (
    <Field label="Zone">
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {[...new Set(["UTC", value, ...zones])].map((zone) => (
          <option key={zone}>{zone}</option>
        ))}
      </select>
    </Field>
  );
}

function Answer({ answer }: { answer: CronPreview }) {
  return (
    <>
      <p class="cron-meaning">{answer.meaning}</p>
      <Card title="Next 20 fire times">
        <FireLine times={answer.next.map((fire) => Date.parse(fire.scheduled_for))} zone={answer.timezone} />
        <div class="columns card-body">
          <Fires fires={answer.next.slice(0, 10).map((fire) => ({ ...fire, timezone: answer.timezone }))} />
          <Fires fires={answer.next.slice(10).map((fire) => ({ ...fire, timezone: answer.timezone }))} />
        </div>
      </Card>
      <div class="columns">
        <Card title="Field by field">
          <div class="table-scroll" tabIndex={0} role="group" aria-label="Table">
            <table>
              <caption class="hidden-text">Fields of the expression</caption>
              <tbody>
                {Object.entries(answer.fields).map(([name, text]) => (
                  <tr key={name}>
                    <th scope="row">{name.replaceAll("_", " ")}</th>
                    <td>
                      <code>{text}</code>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </Card>
        <Card title="Daylight saving changes">
          {answer.dst_notes.length ? (
            <ul class="list">
              {answer.dst_notes.map((note) => (
                <li key={note.at} class="list-row is-tall">
                  <span class="note is-warning grow">
                    <strong>{note.local}</strong> {note.text}
                  </span>
                </li>
              ))}
            </ul>
          ) : (
            <p class="list-empty quiet">Nothing changes for it in {answer.timezone} in the coming year.</p>
          )}
        </Card>
      </div>
    </>
  );
}
