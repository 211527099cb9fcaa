/** Places that continuous profiling fills. */

import type { ReactElement } from "react";
import { Link } from "../parts/link";
import { Empty } from "../parts/states";

const TEXT = {
  timeline: [
    "No timeline yet",
    "Profiles taken on a schedule will stand here, over time. Until then each one is asked for.",
  ],
  memory: [
    "No memory history yet",
    "Heap sizes against the limit will stand here, per version. Until then, capture a heap profile.",
  ],
} as const;

export function LaterView({ which }: { which: "timeline" | "memory" }): ReactElement {
  const [title, text] = TEXT[which];
  const type = which === "memory" ? "heap" : "cpu";
  const action = (
    <Link to={`/capture?type=${type}`} className="button primary">
      Capture a profile
    </Link>
  );
  return (
    <Empty title={title} action={action}>
      {text}
    </Empty>
  );
}
