/** How this server is set up, and how this page looks. */

import { session } from "../api/client";
import type { Setting } from "../api/types";
import { useApi } from "../api/use";
import { PageBody } from "../app";
import { may } from "../state/session";
import { theme } from "../state/theme";
import { LOCAL_ZONE, zoneChoice } from "../state/zone";
import { Card, Choice, Fact, Head, Loading, Problem } from "../ui/parts";
import { type TokenList, Tokens } from "./settings-tokens";

export function SettingsPage() {
  const { data, error, reload } = useApi<Setting[] | { items: Setting[] }>("/settings");
  const settings = Array.isArray(data) ? data : data?.items;
  const tokens = useApi<TokenList>(may("admin") ? "/tokens" : null);
  // The list of tokens stands above that of the settings: were it shown later, it would push the settings down.
  const isKnown = Boolean(settings || error) && Boolean(tokens.data || tokens.error || !may("admin"));
  return (
    <PageBody>
      <Head title="Settings" about="Set in evertick.toml, by EVERTICK_… environment variables or on the command line" />
      <Card title="This page">
        <div class="card-body">
          <dl class="facts page-choices">
            <Fact name="Theme">
              <Choice
                label="Theme"
                value={theme.value}
                options={[
                  { value: "system", text: "System" },
                  { value: "light", text: "Light" },
                  { value: "dark", text: "Dark" },
                ]}
                onPick={(value) => (theme.value = value)}
              />
            </Fact>
            <Fact name="Times">
              <Choice
                label="Default time zone"
                value={zoneChoice.value}
                options={[
                  { value: "local", text: LOCAL_ZONE },
                  { value: "job", text: "Job" },
                  { value: "utc", text: "UTC" },
                ]}
                onPick={(value) => (zoneChoice.value = value)}
              />
            </Fact>
            <Fact name="Signed in">{session.value ? `${session.value.user} (${session.value.role})` : "–"}</Fact>
            <Fact name="Version">{session.value?.version ?? "–"}</Fact>
          </dl>
        </div>
      </Card>
      {!isKnown && <Loading />}
      {isKnown && may("admin") && <Tokens {...tokens} />}
      {error && <Problem error={error} onRetry={reload} />}
      {isKnown && settings && (
        <Card title="This server">
          <div class="table-scroll" tabIndex={0} role="group" aria-label="Table">
            <table>
              <caption class="hidden-text">Settings, their values and where they come from</caption>
              <thead>
                <tr>
                  <th scope="col">Setting</th>
                  <th scope="col">Value</th>
                  <th scope="col" class="from-roomy">
                    From
                  </th>
                </tr>
              </thead>
              <tbody>
                {settings.map((setting) => (
                  <tr key={setting.name}>
                    <td>
                      <code>{setting.name}</code>
                      {setting.meaning && <div class="quiet small">{setting.meaning}</div>}
                    </td>
                    <td class="strong said-value">
                      {shown(setting.value)}
                      <div class="quiet small to-roomy">{setting.origin ?? ""}</div>
                    </td>
                    <td class="quiet small from-roomy">{setting.origin ?? ""}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </Card>
      )}
    </PageBody>
  );
}

function shown(value: unknown): string {
  if (value === null || value === undefined || value === "") return "–";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
