/** One session: how it goes while it lives, why it ended, or its profile. */

import { lazy, type ReactElement, useEffect } from "react";
import { nextStepOfReason } from "../api/problem";
import { useProfileAhead, useSession } from "../api/queries";
import { isLive, type Session } from "../api/types";
import { moment, shortId } from "../format";
import { StateBadge } from "../parts/badge";
import { Link } from "../parts/link";
import { Failed, Loading } from "../parts/states";
import { LiveSession } from "./live";

const loadProfileView = async () => ({
  default: (await import("./profile/profile-view")).ProfileView,
});
const ProfileView = lazy(loadProfileView);

export function SessionView({ id }: { id: string }): ReactElement {
  const session = useSession(id);
  // A link mostly leads to a profile that is ready: all it takes is then fetched at once.
  useProfileAhead(id, session.isPending);
  useEffect(() => void loadProfileView(), []);
  if (session.isPending) return <Loading what="the session" />;
  if (session.isError)
    return (
      <Failed
        what="The session could not be shown"
        error={session.error}
        again={() => void session.refetch()}
      />
    );
  if (isLive(session.data)) return <LiveSession session={session.data} />;
  if (session.data.state === "ready") return <ProfileView session={session.data} />;
  return <EndedSession session={session.data} />;
}

function EndedSession({ session }: { session: Session }): ReactElement {
  return (
    <>
      <SessionHead session={session} />
      <section className="state state-failed">
        <h2>{TITLE[session.state] ?? "There is no profile"}</h2>
        {session.message === "" ? null : (
          <p>
            <bdi>{session.message}</bdi>
          </p>
        )}
        <p className="state-next">{nextStepOfReason(session.reason)}</p>
        <p className="facts">
          {session.reason === null ? null : <span>{session.reason}</span>}
          <span>ended {moment(session.ended_at)}</span>
          {session.retry_at === null ? null : <span>free again {moment(session.retry_at)}</span>}
        </p>
        <div className="state-action">
          <Link to={`/capture?${again(session)}`} className="button primary">
            Capture again
          </Link>
        </div>
      </section>
      <Attempts session={session} />
    </>
  );
}

const TITLE: Partial<Record<Session["state"], string>> = {
  failed: "The capture failed",
  cancelled: "The capture was cancelled",
  expired: "The capture ran out of time",
};

export function SessionHead({ session }: { session: Session }): ReactElement {
  return (
    <div className="head">
      <div>
        <p className="crumbs">
          <Link to="/sessions">Sessions</Link>
        </p>
        <h1>
          {session.worker.name} <code title={session.version}>{shortId(session.version)}</code>
        </h1>
        <p className="sub">
          {session.profile_type === "cpu" ? "CPU" : "Heap"} profile{" "}
          <StateBadge state={session.state} />
        </p>
      </div>
    </div>
  );
}

/** Query of the capture page that asks for the same once more. */
export function again(session: Session): string {
  const query = new URLSearchParams({
    worker: session.worker.name,
    version: session.version,
    type: session.profile_type,
    duration: String(session.duration_ms),
  });
  if (session.namespace_id !== null) query.set("namespace", session.namespace_id);
  if (session.actor_name !== null) query.set("actor_name", session.actor_name);
  else if (session.actor_id !== null) query.set("actor", session.actor_id);
  if (session.isolates.asked > 1) query.set("isolates", String(session.isolates.asked));
  if (session.datacenters.length > 0) query.set("datacenters", session.datacenters.join(","));
  return query.toString();
}

/** Where it was tried, and how that went. */
export function Attempts({ session }: { session: Session }): ReactElement | null {
  if (session.captures.length === 0) return null;
  return (
    <div className="scroll-x card">
      <table className="list">
        <caption>Captures</caption>
        <thead>
          <tr>
            <th scope="col" className="number">
              #
            </th>
            <th scope="col">Datacenter</th>
            <th scope="col">Metal</th>
            <th scope="col">Isolate</th>
            <th scope="col">State</th>
            <th scope="col">Why</th>
          </tr>
        </thead>
        <tbody>
          {session.captures.map((capture) => (
            <tr key={capture.n}>
              <td className="number">{capture.n}</td>
              <td>{capture.datacenter}</td>
              <td>{capture.metal}</td>
              <td className="wrap">
                <bdi>{capture.isolate || "–"}</bdi>
              </td>
              <td>{capture.state}</td>
              <td className="wrap">
                <bdi>{capture.message || capture.reason || "–"}</bdi>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
