/** The way to the frame that fills the width, and the way back. */

import type { ReactElement } from "react";
import { plain } from "../../flame/text";
import { at, pathOf } from "../../flame/tree";
import { amount, percent } from "../../format";
import { nameOf } from "./flame-pane";
import type { Look } from "./look";

const SHOWN_ENDS = 4;

export function Crumbs({ look, open }: { look: Look; open: (node: number) => void }): ReactElement {
  const { tree, focus, profile } = look;
  const path = pathOf(tree, focus);
  // A way of two thousand calls is told by its two ends.
  const skipped = path.length - 2 * SHOWN_ENDS;
  const shown = skipped > 1 ? [...path.slice(0, SHOWN_ENDS), -1, ...path.slice(-SHOWN_ENDS)] : path;
  return (
    <nav className="focus-path" aria-label="Focus">
      <button
        type="button"
        onClick={() => open(0)}
        aria-current={focus === 0 ? "location" : undefined}
      >
        All frames
      </button>
      {shown.map((node) =>
        node === -1 ? (
          <span key="skipped" className="skipped">
            {skipped} more
          </span>
        ) : (
          <button
            key={node}
            type="button"
            onClick={() => open(node)}
            aria-current={node === focus ? "location" : undefined}
          >
            <bdi>{plain(nameOf(look, tree, node), 60)}</bdi>
          </button>
        ),
      )}
      {focus === 0 ? null : (
        <span className="focus-value">
          {amount(at(tree.total, focus), profile.unit)},{" "}
          {percent(at(tree.total, focus), profile.total)} of the profile
        </span>
      )}
    </nav>
  );
}
