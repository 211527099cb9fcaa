/** A profile: its picture, its table, and everything one does with them. */

import { useMutation } from "@tanstack/react-query";
import { type ReactElement, useCallback, useState } from "react";
import type { Problem } from "../../api/problem";
import { useProfile, useWho } from "../../api/queries";
import type { Session } from "../../api/types";
import { functionKey, nodeKey } from "../../flame/keys";
import type { Profile } from "../../flame/profile";
import { ALL, at } from "../../flame/tree";
import { amount, percent } from "../../format";
import { Link } from "../../parts/link";
import { Empty, Failed, Loading } from "../../parts/states";
import { setQuery } from "../../routing";
import { again, SessionHead } from "../session";
import { About, Summary } from "./about";
import { Crumbs } from "./crumbs";
import { download, speedscopeUrl } from "./files";
import { FlamePane } from "./flame-pane";
import { FunctionTable } from "./function-table";
import { type Look, sourceOf, useLook } from "./look";
import { SandwichPane } from "./sandwich-pane";
import { Toolbar } from "./toolbar";

export function ProfileView({ session }: { session: Session }): ReactElement {
  const profile = useProfile(session.id);
  return (
    <>
      <div className="profile-head">
        <SessionHead session={session} />
        <Actions session={session} />
      </div>
      {profile.isPending ? (
        <Loading what="the profile" />
      ) : profile.isError ? (
        <Failed
          what="The profile could not be shown"
          error={profile.error}
          again={() => void profile.refetch()}
        />
      ) : (
        <>
          <Summary session={session} profile={profile.data} />
          <Body session={session} profile={profile.data} />
          <About session={session} profile={profile.data} />
        </>
      )}
    </>
  );
}

function Actions({ session }: { session: Session }): ReactElement {
  const who = useWho();
  const saving = useMutation<void, Problem>({ mutationFn: () => download(who, session.id) });
  const opening = useMutation<void, Problem>({
    mutationFn: async () => {
      // Opened before anything is awaited, or the browser takes it for a pop-up.
      const tab = window.open("about:blank", "_blank");
      const url = await speedscopeUrl(who, session.id);
      if (tab === null) window.location.assign(url);
      else tab.location.replace(url);
    },
  });
  const failed = saving.error ?? opening.error;
  return (
    <div className="actions">
      <button
        type="button"
        className="primary"
        onClick={() => saving.mutate()}
        disabled={saving.isPending}
      >
        Download profile
      </button>
      <button type="button" onClick={() => opening.mutate()} disabled={opening.isPending}>
        Open in speedscope
      </button>
      <Link to={`/compare?base=${session.id}`} className="button">
        Compare…
      </Link>
      <Link to={`/capture?${again(session)}`} className="button">
        Capture again
      </Link>
      {failed === null ? null : (
        <p className="notice notice-bad" role="alert">
          {failed.message}
        </p>
      )}
    </div>
  );
}

function Body({ session, profile }: { session: Session; profile: Profile }): ReactElement {
  const look = useLook(profile);
  const { tree } = profile;
  if (at(tree.width, 0) === 0 && tree.negative === 0) return <Nothing session={session} />;
  return (
    <section className="profile" aria-label="Profile">
      <Toolbar look={look} />
      <Notices look={look} session={session} />
      <Views look={look} />
    </section>
  );
}

function Views({ look }: { look: Look }): ReactElement {
  const { tree, profile, hashes, focus } = look;
  const [active, setActive] = useState(-1);
  const open = useCallback(
    (node: number) => {
      const source = sourceOf(look, node);
      setQuery({ focus: source === 0 ? "" : nodeKey(profile.tree, hashes, source) }, "push");
    },
    [look, profile, hashes],
  );
  const walk = useCallback(
    (node: number) => {
      setActive(node);
      const fn = at(tree.fn, node);
      setQuery({ fn: fn === ALL ? "" : functionKey(hashes, fn) }, "replace");
    },
    [tree, hashes],
  );
  const leave = useCallback(() => {
    if (focus !== 0) open(0);
    else {
      setActive(-1);
      setQuery({ fn: "" }, "replace");
    }
  }, [focus, open]);

  const flame = (
    <div className="pane pane-flame">
      <Crumbs look={look} open={open} />
      <FlamePane
        look={look}
        tree={tree}
        focus={focus}
        label="Flame graph. Arrow keys walk, Enter fills the width with a frame, Escape goes back. The table holds the same numbers."
        active={active < tree.size ? active : -1}
        open={open}
        walk={walk}
        leave={leave}
      />
    </div>
  );
  const table = (
    <div className="pane pane-table">
      <FunctionTable look={look} />
    </div>
  );
  switch (look.view) {
    case "flame":
      return <div className="views">{flame}</div>;
    case "table":
      return <div className="views views-table">{table}</div>;
    case "sandwich":
      return (
        <div className="views views-both">
          {table}
          <div className="pane pane-sandwich">
            <SandwichPane look={look} />
          </div>
        </div>
      );
    case "both":
      return (
        <div className="views views-both">
          {table}
          {flame}
        </div>
      );
  }
}

/** What the picture does not show is said, never left to be guessed. */
function Notices({ look, session }: { look: Look; session: Session }): ReactElement | null {
  const { profile, reshaped } = look;
  const told: string[] = [];
  if (profile.cut !== "") told.push(profile.cut);
  if (reshaped !== null && reshaped.hidden !== 0)
    told.push(
      `Hidden: ${amount(reshaped.hidden, profile.unit)}, ` +
        `${percent(reshaped.hidden, profile.total)} of the profile. Percentages stay those of the whole.`,
    );
  if (profile.tree.negative < 0)
    told.push(
      `Values below zero (${amount(profile.tree.negative, profile.unit)} in all) have no width ` +
        "in the picture; the table has them.",
    );
  const cut = profile.about["truncated"]?.filter((value) => value !== "") ?? [];
  if (cut.length > 0) told.push(`Cut off when it was taken: ${cut.join(", ")}.`);
  if (session.isolates.fewer) told.push(session.isolates.fewer);
  for (const note of profile.about["note"] ?? []) told.push(note);
  if (told.length === 0) return null;
  return (
    <ul className="notices">
      {told.map((text) => (
        <li key={text}>{text}</li>
      ))}
    </ul>
  );
}

function Nothing({ session }: { session: Session }): ReactElement {
  const action = (
    <Link to={`/capture?${again(session)}`} className="button primary">
      Capture again
    </Link>
  );
  return (
    <Empty title="Nothing was sampled in this window" action={action}>
      {session.profile_type === "heap"
        ? "Nothing big enough was allocated while it lasted. Send requests meanwhile, or capture for longer."
        : "The isolate was idle while it lasted. Send requests meanwhile, or capture for longer."}
    </Empty>
  );
}
