/** What stands where there is nothing to show: not yet, not at all, or not for now. */

import type { ReactElement, ReactNode } from "react";
import { nextStep, Problem } from "../api/problem";

export function Loading({ what }: { what: string }): ReactElement {
  return (
    <output className="state state-loading">
      <span className="spinner" aria-hidden="true" />
      Loading {what}…
    </output>
  );
}

interface EmptyProps {
  readonly title: string;
  readonly children: ReactNode;
  readonly action?: ReactNode;
}

/** Nothing there; the text says what to do about it. */
export function Empty({ title, children, action }: EmptyProps): ReactElement {
  return (
    <section className="state">
      <h2>{title}</h2>
      <p>{children}</p>
      {action === undefined ? null : <div className="state-action">{action}</div>}
    </section>
  );
}

interface FailedProps {
  readonly what: string;
  readonly error: Error;
  readonly again?: (() => void) | undefined;
}

/** It went wrong: the API's own words, its number, and what to do next. */
export function Failed({ what, error, again }: FailedProps): ReactElement {
  const problem = error instanceof Problem ? error : null;
  return (
    <section className="state state-failed" role="alert">
      <h2>{what}</h2>
      <p>
        <bdi>{error.message}</bdi>
      </p>
      {problem === null ? null : (
        <>
          <p className="state-next">{nextStep(problem.code, problem.status)}</p>
          <ProblemFacts problem={problem} />
        </>
      )}
      {again === undefined ? null : (
        <div className="state-action">
          <button type="button" onClick={again}>
            Try again
          </button>
        </div>
      )}
    </section>
  );
}

function ProblemFacts({ problem }: { problem: Problem }): ReactElement | null {
  if (problem.status === 0) return null;
  // Only ever an address of our own API: it is not for an answer to say where a link leads.
  const documented = /^\/problems\/[a-z_]+$/.test(problem.documentation);
  return (
    <p className="facts">
      {problem.code === 0 ? null : documented ? (
        <a href={problem.documentation} target="_blank" rel="noreferrer">
          code {problem.code}
        </a>
      ) : (
        <span>code {problem.code}</span>
      )}
      <span>HTTP {problem.status}</span>
      {problem.requestId === "" ? null : <span>request {problem.requestId}</span>}
      {problem.retryAfterS === null ? null : <span>again in {problem.retryAfterS} s</span>}
    </p>
  );
}
