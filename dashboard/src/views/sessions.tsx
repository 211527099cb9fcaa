/** History: every session of the account, newest first, with why it ended. */

import type { ReactElement } from "react";
import { useSessions } from "../api/queries";
import { Link } from "../parts/link";
import { SessionTable } from "../parts/session-table";
import { Empty, Failed, Loading } from "../parts/states";
import { setQuery, useQuery } from "../routing";

const STATES = ["queued", "capturing", "finishing", "ready", "failed", "cancelled", "expired"];

export function SessionsView(): ReactElement {
  const [state] = useQuery("state");
  const [worker] = useQuery("worker");
  const [cursor] = useQuery("cursor");
  const sessions = useSessions({
    state: state || undefined,
    worker: worker || undefined,
    cursor: cursor || undefined,
  });
  const filter = (name: string, value: string): void =>
    setQuery({ [name]: value, cursor: "" }, "replace");
  return (
    <>
      <div className="head">
        <h1>Sessions</h1>
        <div className="filters">
          <label>
            State
            <select value={state} onChange={(event) => filter("state", event.target.value)}>
              <option value="">any</option>
              {STATES.map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
          </label>
          <label>
            Worker
            <input
              type="search"
              defaultValue={worker}
              placeholder="name or id"
              onKeyDown={(event) => {
                if (event.key === "Enter") filter("worker", event.currentTarget.value.trim());
              }}
              onBlur={(event) => filter("worker", event.currentTarget.value.trim())}
            />
          </label>
        </div>
      </div>
      {sessions.isPending ? (
        <Loading what="sessions" />
      ) : sessions.isError ? (
        <Failed
          what="The sessions could not be listed"
          error={sessions.error}
          again={() => void sessions.refetch()}
        />
      ) : sessions.data.result.length === 0 ? (
        <Empty
          title={state === "" && worker === "" ? "No sessions yet" : "No session fits the filters"}
          action={
            <Link to="/capture" className="button primary">
              Capture a profile
            </Link>
          }
        >
          Every profile that was asked for stands here, with what became of it.
        </Empty>
      ) : (
        <>
          <SessionTable sessions={sessions.data.result} />
          <div className="pages">
            {cursor === "" ? null : (
              <button type="button" onClick={() => setQuery({ cursor: "" }, "push")}>
                Newest
              </button>
            )}
            {sessions.data.cursor === "" ? null : (
              <button
                type="button"
                onClick={() => setQuery({ cursor: sessions.data.cursor }, "push")}
              >
                Older
              </button>
            )}
          </div>
        </>
      )}
    </>
  );
}
