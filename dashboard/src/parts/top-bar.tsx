/** The bar above every page. */

import { type ReactElement, useEffect, useRef } from "react";
import { chooseTheme, useTheme } from "../theme";
import { Link } from "./link";

const PLACES = [
  ["workers", "Workers"],
  ["capture", "Capture"],
  ["sessions", "Sessions"],
  ["compare", "Compare"],
  ["timeline", "Timeline"],
  ["memory", "Memory"],
] as const;

interface Props {
  readonly account: string;
  readonly view: string;
  readonly leave: () => void;
}

export function TopBar({ account, view, leave }: Props): ReactElement {
  const theme = useTheme();
  const other = theme === "light" ? "dark" : "light";
  const nav = useRef<HTMLElement>(null);
  // On a narrow screen the navigation scrolls; where one is must be in sight.
  useEffect(() => {
    const here = view === "" ? null : nav.current?.querySelector('[aria-current="page"]');
    here?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [view]);
  return (
    <header className="top">
      <Link to="/workers" className="brand">
        <img src="/mark.svg" alt="" width="22" height="22" />
        isoprof
      </Link>
      <nav aria-label="Views" ref={nav}>
        {PLACES.map(([place, name]) => (
          <Link key={place} to={`/${place}`} aria-current={view === place ? "page" : undefined}>
            {name}
          </Link>
        ))}
      </nav>
      <div className="top-end">
        <span className="account" title={`Account ${account}`}>
          <span className="unseen">Account </span>
          {account.slice(0, 8)}
        </span>
        <button
          type="button"
          className="quiet"
          onClick={() => chooseTheme(other)}
          aria-label={`Use the ${other} theme`}
          title={`Use the ${other} theme`}
        >
          {theme === "light" ? "☾" : "☀"}
        </button>
        <button type="button" className="quiet" onClick={leave}>
          Sign out
        </button>
      </div>
    </header>
  );
}
