/** How to look at a profile: view, search, what to hide, how to colour. */

import { type ReactElement, useEffect, useRef } from "react";
import { KIND_NAME, kindSwatch } from "../../flame/colours";
import { KINDS } from "../../flame/profile";
import { amount, count, percent } from "../../format";
import { setQuery } from "../../routing";
import { useTheme } from "../../theme";
import { HIDDEN, type Look, VIEWS, type ViewName } from "./look";

const NAME: Record<ViewName, string> = {
  both: "Both",
  flame: "Flame graph",
  table: "Table",
  sandwich: "Sandwich",
};

export function Toolbar({ look }: { look: Look }): ReactElement {
  return (
    <div className="toolbar">
      <div className="segments" role="group" aria-label="View">
        {VIEWS.map((view) => (
          <button
            key={view}
            type="button"
            aria-pressed={look.view === view}
            onClick={() => setQuery({ view: view === "both" ? "" : view }, "push")}
          >
            {NAME[view]}
          </button>
        ))}
      </div>
      <Search look={look} />
      <Options look={look} />
    </div>
  );
}

export function Search({ look }: { look: Look }): ReactElement {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const slash = (event: KeyboardEvent): void => {
      const target = event.target as HTMLElement;
      if (event.key !== "/" || target.matches("input, textarea, select")) return;
      event.preventDefault();
      input.current?.focus();
    };
    window.addEventListener("keydown", slash);
    return () => window.removeEventListener("keydown", slash);
  }, []);
  return (
    <div className="search">
      <input
        ref={input}
        type="search"
        value={look.text}
        placeholder="Search functions and files  ( / )"
        aria-label="Search functions and files"
        aria-describedby="found"
        onChange={(event) => setQuery({ q: event.target.value }, "replace")}
        onKeyDown={(event) => {
          if (event.key === "Escape") setQuery({ q: "" }, "replace");
        }}
      />
      <output id="found" className="found">
        {foundText(look)}
      </output>
    </div>
  );
}

function foundText({ text, found, foundValue, profile }: Look): string {
  if (text.trim() === "") return "";
  if (found.wrong !== "") return found.wrong;
  if (found.count === 0) return "nothing found";
  const functions = found.count === 1 ? "1 function" : `${count(found.count)} functions`;
  const share = percent(foundValue, profile.total);
  return `${functions}, ${amount(foundValue, profile.unit)}, ${share}`;
}

function Options({ look }: { look: Look }): ReactElement {
  const changed = look.hide.size + (look.collapse ? 1 : 0) + (look.colouring === "kind" ? 1 : 0);
  const toggle = (name: string, hide: boolean): void => {
    const next = Object.keys(HIDDEN).filter((one) => (one === name ? hide : look.hide.has(one)));
    setQuery({ hide: next.join(",") }, "replace");
  };
  return (
    <details className="options">
      <summary>Options{changed === 0 ? "" : ` (${changed})`}</summary>
      <div className="options-body">
        <fieldset>
          <legend>Hide</legend>
          {Object.entries(HIDDEN).map(([name, what]) => (
            <label key={name} className="check">
              <input
                type="checkbox"
                checked={look.hide.has(name)}
                onChange={(event) => toggle(name, event.target.checked)}
              />
              <span>{what.name}</span>
            </label>
          ))}
        </fieldset>
        <fieldset>
          <legend>Recursion</legend>
          <label className="check">
            <input
              type="checkbox"
              checked={look.collapse}
              onChange={(event) =>
                setQuery({ collapse: event.target.checked ? "1" : "" }, "replace")
              }
            />
            <span>Collapse calls of itself</span>
          </label>
        </fieldset>
        <fieldset>
          <legend>Colour by</legend>
          {(["package", "kind"] as const).map((by) => (
            <label key={by} className="check">
              <input
                type="radio"
                name="colour"
                checked={look.colouring === by}
                onChange={() => setQuery({ colour: by === "kind" ? by : "" }, "replace")}
              />
              <span>{by === "package" ? "package and file" : "kind of code"}</span>
            </label>
          ))}
          <Legend look={look} />
        </fieldset>
      </div>
    </details>
  );
}

function Legend({ look }: { look: Look }): ReactElement | null {
  const theme = useTheme();
  if (look.colouring === "package")
    return <p className="hint">Your own code is warm, libraries are cool, the rest is grey.</p>;
  const present = KINDS.filter((kind) => look.profile.functions.kind.includes(kind));
  return (
    <ul className="legend">
      {present.map((kind) => (
        <li key={kind}>
          <span className="swatch" style={{ background: kindSwatch(kind, theme) }} />
          {KIND_NAME[kind]}
        </li>
      ))}
    </ul>
  );
}
