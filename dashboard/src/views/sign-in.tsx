/** Sign-in by token. */

import { type FormEvent, type ReactElement, useState } from "react";
import { call } from "../api/client";
import type { Credentials } from "../api/credentials";
import { nextStep, Problem } from "../api/problem";

interface Props {
  /** What the address names, if it does. */
  readonly account: string;
  readonly enter: (credentials: Credentials, forTheTab: boolean) => void;
}

const ACCOUNT = /^[0-9a-f]{32}$/;

export function SignIn({ account, enter }: Props): ReactElement {
  const [failed, setFailed] = useState<Problem | null>(null);
  const [asking, setAsking] = useState(false);

  const submit = async (event: FormEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const who = {
      account: String(form.get("account")).trim().toLowerCase(),
      token: String(form.get("token")).trim(),
    };
    setAsking(true);
    setFailed(null);
    try {
      await call(who, "/workers/workers", { query: { per_page: 1 } });
      enter(who, form.get("keep") === "on");
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setFailed(error);
      setAsking(false);
    }
  };

  return (
    <main className="sign-in" id="main">
      <form className="card" onSubmit={(event) => void submit(event)}>
        <h1>
          <img src="/mark.svg" alt="" width="30" height="30" />
          isoprof
        </h1>
        <p className="lead">CPU and memory profiles of the Workers that serve traffic right now.</p>
        <label>
          Account id
          <input
            name="account"
            defaultValue={ACCOUNT.test(account) ? account : ""}
            required
            pattern="\s*[0-9a-fA-F]{32}\s*"
            title="32 hex digits"
            autoComplete="username"
            spellCheck={false}
            placeholder="32 hex digits"
          />
        </label>
        <label>
          API token
          <input
            name="token"
            type="password"
            required
            maxLength={512}
            autoComplete="current-password"
            spellCheck={false}
          />
        </label>
        <label className="check">
          <input name="keep" type="checkbox" defaultChecked />
          <span>
            Stay signed in until this tab is closed
            <small>Otherwise the token is kept in memory, and a reload asks for it again.</small>
          </span>
        </label>
        {failed === null ? null : (
          <div className="notice notice-bad" role="alert">
            <strong>{failed.message}</strong>
            <span>
              {failed.code === 10000
                ? "The token is not known, has expired, or was revoked."
                : nextStep(failed.code, failed.status)}
              {failed.code === 0 ? "" : ` (code ${failed.code})`}
            </span>
          </div>
        )}
        <button type="submit" className="primary" disabled={asking}>
          {asking ? "Signing in…" : "Sign in"}
        </button>
        <p className="hint">
          On your own machine, <code>make demo</code> prints the account id and where its token is.
        </p>
      </form>
    </main>
  );
}
