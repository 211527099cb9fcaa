/** One Worker: its versions, and its latest profiles. */

import { type ReactElement, useState } from "react";
import { useSessions, useVersions } from "../api/queries";
import { ago, moment, shortId } from "../format";
import { Link } from "../parts/link";
import { SessionTable } from "../parts/session-table";
import { Empty, Failed, Loading } from "../parts/states";

export function WorkerView({ worker }: { worker: string }): ReactElement {
  const versions = useVersions(worker);
  const sessions = useSessions({ worker });
  const [now] = useState(() => Date.now());
  if (versions.isPending) return <Loading what="the Worker" />;
  if (versions.isError)
    return <Failed what={`The versions of ${worker} could not be listed`} error={versions.error} />;
  return (
    <>
      <div className="head">
        <div>
          <p className="crumbs">
            <Link to="/workers">Workers</Link>
          </p>
          <h1>{worker}</h1>
        </div>
        <Link to={`/capture?worker=${encodeURIComponent(worker)}`} className="button primary">
          Capture profile
        </Link>
      </div>
      <h2>Versions</h2>
      <div className="scroll-x card">
        <table className="list">
          <thead>
            <tr>
              <th scope="col">Version</th>
              <th scope="col" className="number wide">
                Number
              </th>
              <th scope="col">Created</th>
              <th scope="col">
                <span className="unseen">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {versions.data.result.map((version, index) => (
              <tr key={version.id}>
                <th scope="row">
                  <code title={version.id}>{shortId(version.id)}</code>
                  {index === 0 ? <span className="tag">latest</span> : null}
                </th>
                <td className="number wide">{version.number}</td>
                <td title={moment(version.created_on)}>{ago(version.created_on, now)}</td>
                <td className="end">
                  <Link
                    to={`/capture?worker=${encodeURIComponent(worker)}&version=${version.id}`}
                    className="button"
                    aria-label={`Capture a profile of version ${shortId(version.id)}`}
                  >
                    Capture
                  </Link>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <h2>Profiles</h2>
      {sessions.isPending ? (
        <Loading what="its profiles" />
      ) : sessions.isError ? (
        <Failed what="Its profiles could not be listed" error={sessions.error} />
      ) : sessions.data.result.length === 0 ? (
        <Empty title="No profile of it yet">Capture one while the Worker has traffic.</Empty>
      ) : (
        <SessionTable sessions={sessions.data.result} />
      )}
    </>
  );
}
