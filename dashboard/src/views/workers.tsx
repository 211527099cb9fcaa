/** The account's Workers. */

import { type ReactElement, useState } from "react";
import { useWorkers } from "../api/queries";
import { ago, moment } from "../format";
import { Link } from "../parts/link";
import { Empty, Failed, Loading } from "../parts/states";
import { useQuery } from "../routing";

export function WorkersView(): ReactElement {
  const [pageText, setPage] = useQuery("page");
  const [filter, setFilter] = useQuery("q");
  const page = Math.max(1, Number.parseInt(pageText, 10) || 1);
  const workers = useWorkers(page);
  const [now] = useState(() => Date.now());

  if (workers.isPending) return <Loading what="Workers" />;
  if (workers.isError)
    return (
      <Failed
        what="The Workers could not be listed"
        error={workers.error}
        again={() => void workers.refetch()}
      />
    );
  const { result, total } = workers.data;
  const shown = result.filter((worker) => worker.name.includes(filter.toLowerCase()));
  if (total === 0)
    return (
      <Empty title="No Workers yet">
        A Worker appears here by itself once an agent sees it run. Start an edge agent beside your
        runtime, send the Worker a request, and look again.
      </Empty>
    );
  return (
    <>
      <div className="head">
        <h1>Workers</h1>
        <input
          type="search"
          placeholder="Filter by name"
          aria-label="Filter Workers by name"
          value={filter}
          onChange={(event) => setFilter(event.target.value)}
        />
      </div>
      {shown.length === 0 ? (
        <Empty title="No Worker of this name">Clear the filter to see all {total}.</Empty>
      ) : (
        <div className="scroll-x card">
          <table className="list">
            <thead>
              <tr>
                <th scope="col">Worker</th>
                <th scope="col">Last upload</th>
                <th scope="col" className="wide">
                  First seen
                </th>
                <th scope="col">
                  <span className="unseen">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {shown.map((worker) => (
                <tr key={worker.id}>
                  <th scope="row">
                    <Link to={`/workers/${worker.name}`} className="strong">
                      {worker.name}
                    </Link>
                  </th>
                  <td title={moment(worker.updated_on)}>{ago(worker.updated_on, now)}</td>
                  <td className="wide" title={moment(worker.created_on)}>
                    {ago(worker.created_on, now)}
                  </td>
                  <td className="end">
                    <Link
                      to={`/capture?worker=${encodeURIComponent(worker.name)}`}
                      className="button"
                      aria-label={`Capture a profile of ${worker.name}`}
                    >
                      Capture
                    </Link>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <Pages
        page={page}
        pages={Math.ceil(total / 50)}
        set={(one) => setPage(String(one), "push")}
      />
    </>
  );
}

function Pages(props: {
  page: number;
  pages: number;
  set: (page: number) => void;
}): ReactElement | null {
  if (props.pages < 2) return null;
  return (
    <nav className="pages" aria-label="Pages">
      <button type="button" disabled={props.page <= 1} onClick={() => props.set(props.page - 1)}>
        Previous
      </button>
      <span>
        Page {props.page} of {props.pages}
      </span>
      <button
        type="button"
        disabled={props.page >= props.pages}
        onClick={() => props.set(props.page + 1)}
      >
        Next
      </button>
    </nav>
  );
}
