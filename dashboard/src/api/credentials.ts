/** Who is signed in: an account and its token, kept in memory or for as long as the tab lives. */

export interface Credentials {
  readonly account: string;
  readonly token: string;
}

const KEY = "isoprof.credentials";

/** What was kept for this tab, if anything was. */
export function kept(): Credentials | null {
  try {
    const text = sessionStorage.getItem(KEY);
    if (text === null) return null;
    const found: unknown = JSON.parse(text);
    if (typeof found !== "object" || found === null) return null;
    const { account, token } = found as Partial<Credentials>;
    return typeof account === "string" && typeof token === "string" ? { account, token } : null;
  } catch {
    // Storage can be switched off, or hold anything.
    return null;
  }
}

/** Keep them for this tab; without leave to, whatever was kept is forgotten. */
export function keep(credentials: Credentials | null, forTheTab: boolean): void {
  try {
    if (credentials !== null && forTheTab) sessionStorage.setItem(KEY, JSON.stringify(credentials));
    else sessionStorage.removeItem(KEY);
  } catch {
    // Then they live in memory alone.
  }
}
