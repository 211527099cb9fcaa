/** Ask for a profile: of which version, of what, for how long. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, type ReactElement, useId } from "react";
import { call } from "../api/client";
import { nextStep, type Problem } from "../api/problem";
import { sessionKey, useVersions, useWho, useWorkers } from "../api/queries";
import type { Session, Version } from "../api/types";
import { shortId } from "../format";
import { Failed, Loading } from "../parts/states";
import { go, setQuery, usePlace } from "../routing";

const LATEST = "latest";
const DURATIONS_MS = [1_000, 5_000, 10_000, 30_000, 50_000];

export function CaptureView(): ReactElement {
  const { query } = usePlace();
  const workers = useWorkers(1);
  if (workers.isPending) return <Loading what="Workers" />;
  if (workers.isError)
    return (
      <Failed
        what="The Workers could not be listed"
        error={workers.error}
        again={() => void workers.refetch()}
      />
    );
  const names = workers.data.result.map((worker) => worker.name);
  const asked = query.get("worker") ?? names[0] ?? "";
  return <CaptureForm names={names.includes(asked) ? names : [asked, ...names]} worker={asked} />;
}

function CaptureForm({ names, worker }: { names: string[]; worker: string }): ReactElement {
  const { query } = usePlace();
  const who = useWho();
  const cache = useQueryClient();
  const versions = useVersions(worker);
  const version = query.get("version") ?? LATEST;
  const type = query.get("type") === "heap" ? "heap" : "cpu";
  const duration = query.get("duration") ?? "10000";
  const set = (name: string, value: string): void => setQuery({ [name]: value }, "replace");
  const heading = useId();

  const asking = useMutation<Session, Problem, Record<string, unknown>>({
    mutationFn: async (body) =>
      (await call<Session>(who, "/profile-sessions", { method: "POST", body })).result,
    onSuccess: (session) => {
      cache.setQueryData(sessionKey(who, session.id), session);
      go(`/${who.account}/sessions/${session.id}`);
    },
  });

  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    asking.mutate(bodyOf(query, worker, version, type, duration));
  };
  const wrong = (pointer: string): string | undefined =>
    asking.error?.fields.find((field) => field.pointer === pointer)?.message;

  return (
    <>
      <div className="head">
        <h1 id={heading}>Capture a profile</h1>
      </div>
      <form className="card capture" onSubmit={submit} aria-labelledby={heading} noValidate>
        <fieldset className="choices">
          <legend>What to sample</legend>
          <Choice
            name="type"
            value="cpu"
            chosen={type}
            set={set}
            title="CPU"
            text="Where time goes, sampled about every millisecond."
          />
          <Choice
            name="type"
            value="heap"
            chosen={type}
            set={set}
            title="Heap"
            text="What is allocated in the window, freed or not."
          />
        </fieldset>
        <div className="pair">
          <Field label="Worker" wrong={wrong("/worker")}>
            {(ties) => (
              <select
                {...ties}
                value={worker}
                onChange={(event) =>
                  setQuery({ worker: event.target.value, version: "" }, "replace")
                }
              >
                {names.map((name) => (
                  <option key={name}>{name}</option>
                ))}
              </select>
            )}
          </Field>
          <Field label="Version" wrong={wrong("/version")}>
            {(ties) => (
              <select
                {...ties}
                value={version}
                onChange={(event) =>
                  set("version", event.target.value === LATEST ? "" : event.target.value)
                }
              >
                <option value={LATEST}>latest (most recently created)</option>
                {listed(versions.data?.result ?? [], version).map((one) => (
                  <option key={one.id} value={one.id}>
                    {shortId(one.id)}
                    {one.number > 0 ? ` – number ${one.number}` : ""}
                  </option>
                ))}
              </select>
            )}
          </Field>
        </div>
        <Field
          label="Duration, in milliseconds"
          wrong={wrong("/duration_ms")}
          hint="1,000 to 50,000. Traffic goes on meanwhile: the isolate is held only to start and stop."
        >
          {(ties) => (
            <input
              {...ties}
              type="number"
              min={1_000}
              max={50_000}
              step={1}
              value={duration}
              onChange={(event) => set("duration", event.target.value)}
            />
          )}
        </Field>
        <div className="chips" role="group" aria-label="Usual durations">
          {DURATIONS_MS.map((one) => (
            <button
              key={one}
              type="button"
              aria-pressed={duration === String(one)}
              onClick={() => set("duration", String(one))}
            >
              {one / 1_000} s
            </button>
          ))}
        </div>
        <FleetFields wrong={wrong} />
        <ActorFields wrong={wrong} />
        {asking.error === null ? null : <Refused problem={asking.error} />}
        <button type="submit" className="primary big" disabled={asking.isPending || worker === ""}>
          {asking.isPending ? "Capturing…" : "Capture profile"}
        </button>
      </form>
    </>
  );
}

function FleetFields({ wrong }: { wrong: (pointer: string) => string | undefined }): ReactElement {
  const { query } = usePlace();
  const given = ["isolates", "datacenters"].some((name) => query.has(name));
  return (
    <details className="more" open={given || undefined}>
      <summary>Several isolates, or some datacenters</summary>
      <p className="hint">
        Several isolates are captured at once, spread over datacenters, and merged into one profile.
      </p>
      <div className="pair">
        <Field label="Isolates" wrong={wrong("/isolates")} hint="1 to 64.">
          {(ties) => <Text name="isolates" placeholder="1" ties={ties} />}
        </Field>
        <Field
          label="Datacenters"
          wrong={wrong("/datacenters") ?? wrong("/datacenters/0")}
          hint="Names, parted by commas; any when empty."
        >
          {(ties) => <Text name="datacenters" placeholder="any" ties={ties} />}
        </Field>
      </div>
    </details>
  );
}

function ActorFields({ wrong }: { wrong: (pointer: string) => string | undefined }): ReactElement {
  const { query } = usePlace();
  const names = ["namespace", "actor", "actor_name"];
  const given = names.some((name) => query.has(name));
  return (
    <details className="more" open={given || undefined}>
      <summary>One Durable Object</summary>
      <p className="hint">
        The object must be active and run this version. A profile covers its whole isolate, which
        objects of one class share.
      </p>
      <Field label="Namespace id" wrong={wrong("/namespace_id")}>
        {(ties) => <Text name="namespace" placeholder="32 hex digits" ties={ties} />}
      </Field>
      <div className="pair">
        <Field label="Object id" wrong={wrong("/actor_id")}>
          {(ties) => <Text name="actor" placeholder="64 hex digits" ties={ties} />}
        </Field>
        <Field label="or its name" wrong={wrong("/actor_name")}>
          {(ties) => <Text name="actor_name" placeholder="as given to idFromName" ties={ties} />}
        </Field>
      </div>
    </details>
  );
}

function Text({
  name,
  placeholder,
  ties,
}: {
  name: string;
  placeholder: string;
  ties: Ties;
}): ReactElement {
  const { query } = usePlace();
  return (
    <input
      {...ties}
      value={query.get(name) ?? ""}
      placeholder={placeholder}
      spellCheck={false}
      autoComplete="off"
      onChange={(event) => setQuery({ [name]: event.target.value }, "replace")}
    />
  );
}

function Refused({ problem }: { problem: Problem }): ReactElement {
  return (
    <div className="notice notice-bad" role="alert">
      <strong>
        {problem.fields.length > 0 ? "Some of this is not right; see above." : problem.message}
      </strong>
      <span>
        {nextStep(problem.code, problem.status)}
        {problem.code === 0 ? "" : ` (code ${problem.code})`}
      </span>
    </div>
  );
}

interface ChoiceProps {
  readonly name: string;
  readonly value: string;
  readonly chosen: string;
  readonly set: (name: string, value: string) => void;
  readonly title: string;
  readonly text: string;
}

function Choice({ name, value, chosen, set, title, text }: ChoiceProps): ReactElement {
  return (
    <label className="choice">
      <input
        type="radio"
        name={name}
        value={value}
        checked={chosen === value}
        onChange={() => set(name, value)}
      />
      <span>
        <strong>{title}</strong>
        <small>{text}</small>
      </span>
    </label>
  );
}

interface FieldProps {
  readonly label: string;
  readonly wrong?: string | undefined;
  readonly hint?: string;
  /** The control, given what ties it to its label and to what is said about it. */
  readonly children: (ties: Ties) => ReactElement;
}

interface Ties {
  readonly id: string;
  readonly "aria-describedby": string;
  readonly "aria-invalid": boolean;
}

function Field({ label, wrong, hint, children }: FieldProps): ReactElement {
  const id = useId();
  const said = `${id}-said`;
  const ties = { id, "aria-describedby": said, "aria-invalid": wrong !== undefined };
  return (
    <div className={wrong === undefined ? "field" : "field field-wrong"}>
      <label htmlFor={id}>{label}</label>
      {children(ties)}
      <div id={said}>
        {hint === undefined ? null : <small>{hint}</small>}
        {wrong === undefined ? null : (
          <small className="wrong" role="alert">
            {wrong}
          </small>
        )}
      </div>
    </div>
  );
}

// A version that a link names stays choosable when the list does not reach back to it.
function listed(versions: readonly Version[], chosen: string): readonly Version[] {
  if (chosen === LATEST || versions.some((version) => version.id === chosen)) return versions;
  return [{ id: chosen, number: 0, created_on: "" }, ...versions];
}

function bodyOf(
  query: URLSearchParams,
  worker: string,
  version: string,
  type: string,
  duration: string,
): Record<string, unknown> {
  const duration_ms = numeric(duration);
  const body: Record<string, unknown> = { worker, version, profile_type: type, duration_ms };
  const optional = { namespace_id: "namespace", actor_id: "actor", actor_name: "actor_name" };
  for (const [field, name] of Object.entries(optional)) {
    const value = (query.get(name) ?? "").trim();
    if (value !== "") body[field] = value;
  }
  const isolates = (query.get("isolates") ?? "").trim();
  if (isolates !== "") body["isolates"] = numeric(isolates);
  const datacenters = (query.get("datacenters") ?? "").split(",").map((one) => one.trim());
  if (datacenters.some((one) => one !== ""))
    body["datacenters"] = datacenters.filter((one) => one !== "");
  return body;
}

// What is no number goes as it is: it is the API that says what is wrong with it.
function numeric(text: string): number | string {
  return /^\d+$/.test(text) ? Number(text) : text;
}
