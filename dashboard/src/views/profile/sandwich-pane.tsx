/** One function, its callers above and what it calls below. */

import { type ReactElement, useMemo, useState } from "react";
import { functionKey } from "../../flame/keys";
import { sandwich } from "../../flame/sandwich";
import { plain } from "../../flame/text";
import { ALL, at, type Tree } from "../../flame/tree";
import { amount, percent } from "../../format";
import { setQuery } from "../../routing";
import { FlamePane, placeOf } from "./flame-pane";
import type { Look } from "./look";

export function SandwichPane({ look }: { look: Look }): ReactElement {
  const { fn, tree, profile, sums } = look;
  const two = useMemo(() => (fn < 0 ? null : sandwich(tree, fn)), [tree, fn]);
  if (two === null)
    return (
      <div className="sandwich-none">
        <h2>Choose a function</h2>
        <p>Its callers and what it calls will stand here. Choose one from the table.</p>
      </div>
    );
  const name = profile.functions.name[fn] ?? "";
  return (
    <section className="sandwich" aria-label="Callers and callees">
      <h2>
        <bdi>{plain(name, 80)}</bdi> <small>{plain(placeOf(look, fn))}</small>
      </h2>
      <p className="sub">
        Total {amount(at(sums.total, fn), profile.unit)},{" "}
        {percent(at(sums.total, fn), profile.total)} of the profile; recursion counts once.
      </p>
      <h3>Callers</h3>
      <Half look={look} tree={two.callers} upward label={`Callers of ${plain(name, 80)}`} />
      <h3>Calls</h3>
      <Half look={look} tree={two.callees} label={`What ${plain(name, 80)} calls`} />
    </section>
  );
}

interface HalfProps {
  readonly look: Look;
  readonly tree: Tree;
  readonly upward?: boolean;
  readonly label: string;
}

function Half({ look, tree, upward = false, label }: HalfProps): ReactElement {
  const [active, setActive] = useState(-1);
  // To open a frame here is to put that function in the middle.
  const open = (node: number): void => {
    const fn = at(tree.fn, node);
    if (fn !== ALL) setQuery({ fn: functionKey(look.hashes, fn) }, "push");
  };
  return (
    <FlamePane
      look={look}
      tree={tree}
      focus={0}
      upward={upward}
      fromLevel={1}
      label={label}
      active={active}
      open={open}
      walk={setActive}
      leave={() => setActive(-1)}
    />
  );
}
