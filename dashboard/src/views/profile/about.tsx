/** What a profile says of itself: where it was taken, how, and how sure its numbers are. */

import type { ReactElement, ReactNode } from "react";
import type { Capture, Session } from "../../api/types";
import type { Profile } from "../../flame/profile";
import { plain } from "../../flame/text";
import { amount, count, moment, percent } from "../../format";

interface Props {
  readonly session: Session;
  readonly profile: Profile;
}

/** The few numbers everybody needs, above the picture. */
export function Summary({ session, profile }: Props): ReactElement {
  const { about, unit, total } = profile;
  const window = (session.profile?.window_ms ?? 0) * 1e6;
  const taken = session.captures.find((capture) => capture.state === "uploaded");
  const samples = session.profile?.samples ?? 0;
  const error = about["error_percent"]?.[0];
  const inconclusive = about["confidence"]?.includes("inconclusive") ?? false;
  const cpu = unit === "nanoseconds";
  return (
    <dl className="summary">
      <Fact name={cpu ? "CPU time" : "Allocated"}>
        {amount(total, unit)}
        {cpu && window > 0 ? <small>{percent(total, window)} of the window</small> : null}
      </Fact>
      <Fact name="Window">{amount(window, "nanoseconds")}</Fact>
      <Fact name="Samples">
        {count(samples)}
        {cpu && error !== undefined ? (
          <small className={inconclusive ? "doubt" : undefined}>
            ±{error} %{inconclusive ? ", inconclusive" : ""}
          </small>
        ) : null}
      </Fact>
      {session.isolates.asked > 1 ? (
        <Fact name="Isolates">
          {session.isolates.taken}
          <small>of {session.isolates.asked} asked for</small>
        </Fact>
      ) : null}
      {taken === undefined || session.isolates.asked > 1 ? null : (
        <>
          <Fact name="Taken on">
            {taken.metal}
            <small>{taken.datacenter}</small>
          </Fact>
          <Fact name="Lock held">
            {amount((taken.lock_held_us ?? 0) * 1e3, "nanoseconds")}
            <small>in all</small>
          </Fact>
        </>
      )}
    </dl>
  );
}

/** All of it, below the picture. */
export function About({ session, profile }: Props): ReactElement {
  const told = Object.entries(profile.about).filter(([key]) => !SHOWN_ABOVE.has(key));
  return (
    <details className="about card">
      <summary>About this profile</summary>
      <dl className="facts-list">
        <Fact name="Session">
          <code>{session.id}</code>
        </Fact>
        <Fact name="Version">
          <code>{session.version}</code>
        </Fact>
        <Fact name="Asked for">{moment(session.created_at)}</Fact>
        <Fact name="Ended">{moment(session.ended_at)}</Fact>
        {session.actor_id === null ? null : (
          <Fact name="Durable Object">
            <code>{session.actor_id}</code>
          </Fact>
        )}
        {session.profile === null ? null : (
          <Fact name="SHA-256">
            <code>{session.profile.sha256}</code>
          </Fact>
        )}
        {told.map(([key, values]) => (
          <Fact key={key} name={ABOUT_NAME[key] ?? key.replaceAll("_", " ")}>
            <bdi>{plain(aboutText(key, values))}</bdi>
          </Fact>
        ))}
      </dl>
      {session.captures
        .filter((capture) => capture.holds.length > 0)
        .map((capture) => (
          <Holds key={capture.n} capture={capture} />
        ))}
    </details>
  );
}

const SHOWN_ABOVE = new Set(["session", "version", "error_percent", "confidence"]);

const ABOUT_NAME: Readonly<Record<string, string>> = {
  isoprof: "Taken by isoprof",
  idle_ns: "Idle",
  gaps_ns: "Between slices",
  lock_start_ns: "Longest hold to start",
  lock_stop_ns: "Longest hold to stop",
  truncated: "Cut off",
};

function aboutText(key: string, values: readonly string[]): string {
  return values
    .map((value) =>
      key.endsWith("_ns") && /^\d+$/.test(value) ? amount(Number(value), "nanoseconds") : value,
    )
    .join(", ");
}

/** Each time the isolate's lock was held. */
function Holds({ capture }: { capture: Capture }): ReactElement {
  const us = (value: number): string => amount(value * 1e3, "nanoseconds");
  return (
    <div className="scroll-x">
      <table className="list compact">
        <caption>
          Lock holds of <bdi>{capture.isolate}</bdi> on {capture.metal}
        </caption>
        <thead>
          <tr>
            {["Slice", "Start", "Stop", "Gap before", "Sampled", "Samples", "Nodes"].map((name) => (
              <th key={name} scope="col" className="number">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {capture.holds.map((hold, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: slices have no other name than their place
            <tr key={index}>
              <td className="number">{index + 1}</td>
              <td className="number">{us(hold.start_hold_us)}</td>
              <td className="number">{us(hold.stop_hold_us)}</td>
              <td className="number">{us(hold.gap_us)}</td>
              <td className="number">{us(hold.sampled_us)}</td>
              <td className="number">{count(hold.samples)}</td>
              <td className="number">{count(hold.nodes)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }): ReactElement {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
