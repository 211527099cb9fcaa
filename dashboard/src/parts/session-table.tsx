/** Sessions as rows. */

import { type ReactElement, useState } from "react";
import type { Session } from "../api/types";
import { ago, count, millis, moment, shortId } from "../format";
import { StateBadge } from "./badge";
import { Link } from "./link";

export function SessionTable({ sessions }: { sessions: readonly Session[] }): ReactElement {
  const [now] = useState(() => Date.now());
  return (
    <div className="scroll-x card">
      <table className="list">
        <thead>
          <tr>
            <th scope="col">Session</th>
            <th scope="col">State</th>
            <th scope="col">Type</th>
            <th scope="col">Version</th>
            <th scope="col">Taken on</th>
            <th scope="col" className="number">
              Samples
            </th>
            <th scope="col" className="number">
              Duration
            </th>
            <th scope="col">Asked for</th>
          </tr>
        </thead>
        <tbody>
          {sessions.map((session) => (
            <Row key={session.id} session={session} now={now} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({ session, now }: { session: Session; now: number }): ReactElement {
  const last = session.captures[session.captures.length - 1];
  return (
    <tr>
      <th scope="row">
        <Link to={`/sessions/${session.id}`} className="strong">
          {session.worker.name}
          <span className="unseen"> session {shortId(session.id)}</span>
        </Link>
        {session.reason === null ? null : <small className="reason">{session.reason}</small>}
      </th>
      <td>
        <StateBadge state={session.state} />
      </td>
      <td>{session.profile_type}</td>
      <td>
        <code title={session.version}>{shortId(session.version)}</code>
      </td>
      <td>{last === undefined ? "–" : last.metal}</td>
      <td className="number">{session.profile === null ? "–" : count(session.profile.samples)}</td>
      <td className="number">{millis(session.duration_ms)}</td>
      <td title={moment(session.created_at)}>{ago(session.created_at, now)}</td>
    </tr>
  );
}
