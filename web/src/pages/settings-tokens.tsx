/** Who may use this server: tokens, made and revoked by those who may. */

import { useState } from "preact/hooks";
import { path, send, session } from "../api/client";
import type { NewToken, Role, TokenState } from "../api/types";
import type { Loaded } from "../api/use";
import { FormDialog } from "../ui/dialog";
import { Button, Card, Field, Problem } from "../ui/parts";
import { Time } from "../ui/time";
import { say } from "../ui/toast";

const ROLES: { role: Role; may: string }[] = [
  { role: "viewer", may: "read everything" },
  { role: "operator", may: "as viewer, and run, cancel, retry, pause, backfill" },
  { role: "editor", may: "as operator, and edit definitions where that is enabled" },
  { role: "admin", may: "everything, and manage tokens" },
];

export interface TokenList {
  items: TokenState[];
}

export function Tokens({ data, error, reload }: Loaded<TokenList>) {
  const [isMaking, setMaking] = useState(false);
  const [made, setMade] = useState<NewToken | null>(null);
  const [leaving, setLeaving] = useState<TokenState | null>(null);
  return (
    <Card title="Tokens" aside={<Button isSmall onClick={() => setMaking(true)}>New token</Button>}>
      {error && <Problem error={error} onRetry={reload} />}
      {made && <Made token={made} onDone={() => setMade(null)} />}
      {data && (
        <div class="table-scroll" tabIndex={0} role="group" aria-label="Table">
          <table>
            <caption class="hidden-text">Tokens and their roles</caption>
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col">Role</th>
                <th scope="col">Created</th>
                <th scope="col">Expires</th>
                <th scope="col">
                  <span class="hidden-text">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {data.items.map((token) => (
                <tr key={token.id}>
                  <td class="strong">
                    {token.name} {token.name === session.value?.user && <span class="row-tag">you</span>}
                  </td>
                  <td>{token.role}</td>
                  <td>
                    <Time at={token.created_at} /> <span class="quiet small">{token.created_by && `by ${token.created_by}`}</span>
                  </td>
                  <td>{token.expires_at ? <Time at={token.expires_at} /> : "never"}</td>
                  <td class="right">
                    <Button isSmall label={`Revoke ${token.name}`} onClick={() => setLeaving(token)}>
                      Revoke
                    </Button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {isMaking && <MakeDialog onClose={() => setMaking(false)} onMade={(token) => (setMade(token), reload())} />}
      {leaving && (
        <FormDialog
          title={`Revoke ${leaving.name}`}
          action="Revoke"
          isDangerous
          onClose={() => setLeaving(null)}
          onSubmit={async () => {
            await send(path`/tokens/${leaving.id}`, {}, "DELETE");
            reload();
            return `Revoked ${leaving.name}.`;
          }}
        >
          <p>
            The server rejects this token immediately, and signs out every page that uses it
            {leaving.name === session.value?.user ? ", including this one" : ""}.
          </p>
        </FormDialog>
      )}
    </Card>
  );
}

function Made({ token, onDone }: { token: NewToken; onDone: () => void }) {
  const copy = () => navigator.clipboard?.writeText(token.token).then(() => say("Copied."), () => say("Cannot copy. Select the token and copy it.", true));
  return (
    <div class="note token-made" role="status">
      <p>
        <span class="strong">{token.name}</span> is active. Copy it now: the server stores only a hash and cannot show it again.
      </p>
      <p class="row wrap">
        <code class="grow">{token.token}</code>
        <Button isSmall onClick={copy}>
          Copy
        </Button>
        <Button isSmall onClick={onDone}>
          Done
        </Button>
      </p>
    </div>
  );
}

function MakeDialog({ onClose, onMade }: { onClose: () => void; onMade: (token: NewToken) => void }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("viewer");
  const [days, setDays] = useState(90);
  const submit = async () => {
    const until = days > 0 ? new Date(Date.now() + days * 86_400_000).toISOString() : null;
    onMade(await send<NewToken>("/tokens", { name, role, expires_at: until }));
    return `Created ${name}.`;
  };
  return (
    <FormDialog title="New token" action="Create token" isReady={name.trim() !== ""} onClose={onClose} onSubmit={submit}>
      <Field label="Name" hint="who or what uses it">
        <input required maxLength={64} value={name} onInput={(event) => setName(event.currentTarget.value)} />
      </Field>
      <Field label="Role" hint={ROLES.find((one) => one.role === role)?.may}>
        <select value={role} onChange={(event) => setRole(event.currentTarget.value as Role)}>
          {ROLES.map((one) => (
            <option key={one.role} value={one.role}>
              {one.role}
            </option>
          ))}
        </select>
      </Field>
      <Field label="Valid for (days)" hint="0: until you revoke it">
        <input type="number" min={0} max={3650} value={days} onInput={(event) => setDays(Number(event.currentTarget.value) || 0)} />
      </Field>
    </FormDialog>
  );
}
