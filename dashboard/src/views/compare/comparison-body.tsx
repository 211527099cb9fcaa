/** The comparison: a flame graph coloured by change, and a table of what changed. */

import { type ReactElement, useCallback, useMemo, useState } from "react";
import { type Comparison, changePixels } from "../../flame/comparison";
import { functionKey, nodeKey } from "../../flame/keys";
import { ALL, at } from "../../flame/tree";
import { amount, percent } from "../../format";
import { setQuery, useQuery } from "../../routing";
import { useTheme } from "../../theme";
import { Crumbs } from "../profile/crumbs";
import { FlamePane } from "../profile/flame-pane";
import { type Look, useLook } from "../profile/look";
import { Search } from "../profile/toolbar";
import { ChangeTable } from "./change-table";

const VIEWS = ["both", "flame", "table"] as const;
const NAME = { both: "Both", flame: "Flame graph", table: "Table" } as const;

export function ComparisonBody({ comparison }: { comparison: Comparison }): ReactElement {
  const [side, setSide] = useQuery("width");
  const shown = side === "before" ? comparison.before : comparison.after;
  const look = useLook(shown, VIEWS);
  return (
    <section className="profile" aria-label="Comparison">
      <Sums comparison={comparison} />
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
        <div className="segments" role="group" aria-label="Width of frames">
          {(["after", "before"] as const).map((one) => (
            <button
              key={one}
              type="button"
              aria-pressed={(side === "before") === (one === "before")}
              onClick={() => setSide(one === "before" ? one : "", "push")}
            >
              Width {one}
            </button>
          ))}
        </div>
      </div>
      <div className={look.view === "both" ? "views views-both" : "views"}>
        {look.view === "flame" ? null : (
          <div className="pane pane-table">
            <ChangeTable look={look} comparison={comparison} />
          </div>
        )}
        {look.view === "table" ? null : <Flame look={look} comparison={comparison} />}
      </div>
    </section>
  );
}

function Sums({ comparison }: { comparison: Comparison }): ReactElement {
  const { after, measuredBefore, scale } = comparison;
  const [by, setBy] = useQuery("by");
  const shares = by === "total";
  const counts = (status: string): number =>
    comparison.status.filter((one) => one === status).length;
  return (
    <>
      <dl className="summary">
        <div>
          <dt>Before</dt>
          <dd>{amount(measuredBefore, after.unit)}</dd>
        </div>
        <div>
          <dt>After</dt>
          <dd>
            {amount(after.total, after.unit)}
            {measuredBefore > 0 ? (
              <small>{percent(after.total, measuredBefore)} of before</small>
            ) : null}
          </dd>
        </div>
        <div>
          <dt>Functions</dt>
          <dd>
            {counts("new")} new, {counts("gone")} gone, {counts("changed")} changed
          </dd>
        </div>
      </dl>
      <div className="change-key">
        <label>
          Compare{" "}
          <select
            value={shares ? "total" : "window"}
            onChange={(event) => setBy(event.target.value === "total" ? "total" : "")}
          >
            <option value="window">amounts in the same time</option>
            <option value="total">shares of the whole</option>
          </select>
        </label>
        <span className="key key-less" /> less than before <span className="key key-more" /> more
        than before
        {Math.abs(scale - 1) < 0.01 ? null : (
          <span>
            Values before are multiplied by {scale.toPrecision(3)}, so that{" "}
            {shares ? "both wholes are equal." : "both windows are equally long."}
          </span>
        )}
      </div>
    </>
  );
}

function Flame({ look, comparison }: { look: Look; comparison: Comparison }): ReactElement {
  const theme = useTheme();
  const { tree, focus, hashes, profile } = look;
  const { before, after } = comparison;
  const [active, setActive] = useState(-1);
  const pixels = useMemo(
    () => changePixels(before.tree, after.tree, theme),
    [before, after, theme],
  );
  const open = useCallback(
    (node: number) =>
      setQuery({ focus: node === 0 ? "" : nodeKey(profile.tree, hashes, node) }, "push"),
    [profile, hashes],
  );
  const walk = useCallback(
    (node: number) => {
      setActive(node);
      const fn = at(tree.fn, node);
      setQuery({ fn: fn === ALL ? "" : functionKey(hashes, fn) }, "replace");
    },
    [tree, hashes],
  );
  const more = useCallback(
    (node: number): string[] => {
      const was = at(before.tree.total, node);
      const is = at(after.tree.total, node);
      const by = `${is > was ? "+" : ""}${amount(is - was, after.unit)}`;
      return [`Before ${amount(was, after.unit)}, after ${amount(is, after.unit)}: ${by}`];
    },
    [before, after],
  );
  return (
    <div className="pane pane-flame">
      <Crumbs look={look} open={open} />
      <FlamePane
        look={look}
        tree={tree}
        focus={focus}
        label="Flame graph of the change. Arrow keys walk, Enter fills the width with a frame, Escape goes back."
        active={active}
        pixels={pixels}
        more={more}
        open={open}
        walk={walk}
        leave={() => (focus === 0 ? setActive(-1) : open(0))}
      />
    </div>
  );
}
