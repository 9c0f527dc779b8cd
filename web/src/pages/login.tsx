/** The sign-in page. */

import { useState } from "preact/hooks";
import { hasExpired } from "../api/client";
import { signIn } from "../state/session";

export function Login() {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  async function submit(event: Event) {
    event.preventDefault();
    setBusy(true);
    try {
      await signIn(token);
    } catch (error) {
      setProblem((error as Error).message);
      setBusy(false);
    }
  }
  return (
    <main class="login">
      <form class="login-card" onSubmit={submit}>
        <img src="/favicon.svg" alt="" width="44" height="44" />
        <h1>Evertick</h1>
        <p class="quiet">Every tick is accounted for. Sign in with the token that the first start printed.</p>
        <label class="field">
          <span class="field-label">Token</span>
          <input
            type="password"
            autocomplete="current-password"
            autofocus
            required
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        {hasExpired.value && !problem && (
          <p class="note is-warning" role="alert">
            Your session has ended: its token expired or was revoked. Sign in again.
          </p>
        )}
        {problem && (
          <p class="note is-bad" role="alert">
            {problem}
          </p>
        )}
        <button type="submit" class="button is-main" disabled={isBusy || !token}>
          Sign in
        </button>
        <p class="quiet small">
          Lost it? Ask an admin of this server for a new token.
        </p>
      </form>
    </main>
  );
}
