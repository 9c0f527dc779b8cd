/** Who did what, when; a chain of hashes shows that no line was changed. */

import { usePages } from "../api/pages";
import type { AuditLine, AuditPage as AuditAnswer } from "../api/types";
import { PageBody } from "../app";
import { Card, Empty, Head, Loading, Problem } from "../ui/parts";
import { More } from "../ui/runs";
import { Time } from "../ui/time";
import { deedOf, objectOf, outcomeOf } from "./audit-words";

export function AuditPage() {
  const lines = usePages<AuditLine, AuditAnswer>("/audit", { limit: 100 });
  const isSound = lines.first?.chain_ok;
  return (
    <PageBody>
      <Head title="Audit" about="Who did what, and when">
        {isSound && <span class="state-lamp is-succeeded">hash chain intact</span>}
      </Head>
      {isSound === false && (
        <p class="note is-bad" role="alert">
          The audit log's hash chain is broken: a line was changed or removed. Make a copy of the log now.
        </p>
      )}
      {lines.error && <Problem error={lines.error} onRetry={lines.reload} />}
      <Card>
        {!lines.first && lines.isLoading && <Loading />}
        {lines.first && !lines.items.length && <Empty title="No actions yet" icon="audit" />}
        {lines.items.length > 0 && (
          <div class="table-scroll" tabIndex={0} role="group" aria-label="Table">
            <table>
              <caption class="hidden-text">Actions, newest first</caption>
              <thead>
                <tr>
                  <th scope="col">When</th>
                  <th scope="col">Who</th>
                  <th scope="col">What</th>
                  <th scope="col">On</th>
                  <th scope="col">Outcome</th>
                  <th scope="col" class="from-wide">
                    With
                  </th>
                </tr>
              </thead>
              <tbody>
                {lines.items.map((line) => (
                  <tr key={line.number}>
                    <td class="nowrap">
                      <Time at={line.at} />
                    </td>
                    <td data-tip={line.from || undefined}>{line.by}</td>
                    <td class="strong nowrap" data-tip={line.action}>
                      {deedOf(line.action, line.detail)}
                    </td>
                    <td class="object-cell">
                      <span class="cut">{objectOf(line.action, line.target)}</span>
                    </td>
                    <td class="nowrap">{outcomeOf(line.outcome)}</td>
                    <td class="quiet small mono from-wide said">
                      <span class="cut">{detailOf(line.detail)}</span>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
        <More hasMore={lines.hasMore} onMore={lines.more} />
      </Card>
    </PageBody>
  );
}

function detailOf(detail: unknown): string {
  if (detail === null || detail === undefined || detail === "") return "";
  if (typeof detail === "string") return detail;
  const known = Object.entries(detail).filter(([, value]) => value !== null && value !== "" && !(Array.isArray(value) && !value.length));
  return known.map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ");
}
