/** Two profiles against each other: choose them, then see what is new, gone and changed. */

import { type ReactElement, useId } from "react";
import { useComparison, useSession, useSessions } from "../api/queries";
import type { Session } from "../api/types";
import { moment, shortId } from "../format";
import { Link } from "../parts/link";
import { Empty, Failed, Loading } from "../parts/states";
import { setQuery, useQuery } from "../routing";
import { ComparisonBody } from "./compare/comparison-body";

export function CompareView(): ReactElement {
  const [base] = useQuery("base");
  const [other] = useQuery("new");
  return (
    <>
      <div className="head">
        <h1>Compare</h1>
      </div>
      <Chooser base={base} other={other} />
      {base === "" || other === "" ? (
        <Empty title="Choose two profiles">
          Both of the same type: the one before a change, and the one after it.
        </Empty>
      ) : base === other ? (
        <Empty title="These are one profile">Choose another one to compare it with.</Empty>
      ) : (
        <Chosen base={base} other={other} />
      )}
    </>
  );
}

function Chooser({ base, other }: { base: string; other: string }): ReactElement {
  const ready = useSessions({ state: "ready" });
  const before = useSession(base);
  const after = useSession(other);
  if (ready.isPending) return <Loading what="profiles" />;
  if (ready.isError) return <Failed what="The profiles could not be listed" error={ready.error} />;
  if (ready.data.result.length === 0)
    return (
      <Empty
        title="No profiles yet"
        action={
          <Link to="/capture" className="button primary">
            Capture a profile
          </Link>
        }
      >
        Two are needed: capture one, change the Worker, and capture another.
      </Empty>
    );
  const type = before.data?.profile_type ?? after.data?.profile_type;
  // What a link names stays chosen when the list does not reach back to it.
  const known = [before.data, after.data].filter((one) => one !== undefined);
  const sessions = [
    ...new Map([...ready.data.result, ...known].map((one) => [one.id, one])).values(),
  ];
  const same = sessions.filter((one) => type === undefined || one.profile_type === type);
  return (
    <div className="card chooser">
      <Choice label="Before" name="base" value={base} sessions={other === "" ? sessions : same} />
      <button
        type="button"
        aria-label="Swap before and after"
        title="Swap before and after"
        disabled={base === "" && other === ""}
        onClick={() => setQuery({ base: other, new: base }, "push")}
      >
        ⇄
      </button>
      <Choice label="After" name="new" value={other} sessions={base === "" ? sessions : same} />
    </div>
  );
}

interface ChoiceProps {
  readonly label: string;
  readonly name: string;
  readonly value: string;
  readonly sessions: readonly Session[];
}

function Choice({ label, name, value, sessions }: ChoiceProps): ReactElement {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <select
        id={id}
        value={value}
        onChange={(event) => setQuery({ [name]: event.target.value }, "push")}
      >
        <option value="">choose a profile</option>
        {sessions.map((one) => (
          <option key={one.id} value={one.id}>
            {`${one.worker.name} ${shortId(one.version)} ${one.profile_type}, ${moment(one.created_at)}`}
          </option>
        ))}
      </select>
    </div>
  );
}

function Chosen({ base, other }: { base: string; other: string }): ReactElement {
  const [by] = useQuery("by");
  const comparison = useComparison(other, base, by === "total" ? "total" : "window");
  if (comparison.isPending) return <Loading what="the comparison" />;
  if (comparison.isError)
    return (
      <Failed
        what="The two could not be compared"
        error={comparison.error}
        again={() => void comparison.refetch()}
      />
    );
  return <ComparisonBody comparison={comparison.data} />;
}
