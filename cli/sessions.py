"""``isoprof sessions …``: captures that were asked for, found again by their id."""

import json
from typing import Annotated, Any

import typer

from cli import events, options, outcome, output, parts, progress, table, taking
from cli.api import Api, Profile

ROOT = taking.ROOT
PER_PAGE = 100
COLUMNS = ("id", "state", "worker", "version", "profile_type", "duration_ms", "created_at")

app = typer.Typer(no_args_is_help=True, help="Profile sessions of the account.")


@app.command("list")
def list_sessions(
    state: Annotated[str | None, typer.Option(help="Only those in this state.")] = None,
    worker: Annotated[str | None, typer.Option(help="Only those of this Worker.")] = None,
    version: Annotated[
        str | None, typer.Option(help="Only those of this version: UUID, prefix, or 'latest'.")
    ] = None,
    profile_type: Annotated[
        str | None, typer.Option("--profile-type", help="Only cpu, or only heap.")
    ] = None,
    origin: Annotated[
        str | None, typer.Option(help="Only sync (its caller waited), or only api.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only those made then or later: 2026-12-01T08:30:00Z.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Only those made before then.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many, newest first.")] = 20,
    as_json: options.AsJson = False,
) -> None:
    """List sessions, newest first."""
    given = {
        "state": state,
        "worker": worker,
        "version": version,
        "profile_type": profile_type,
        "origin": origin,
        "since": since,
        "until": until,
    }
    query = {name: value for name, value in given.items() if value is not None}
    rows = outcome.run(lambda client: _newest(client, query, limit))
    table.show(rows, COLUMNS, as_json=as_json)


async def _newest(client: Api, query: dict[str, str], limit: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    cursor = ""
    while True:
        asked = query | {"limit": str(min(limit - len(rows), PER_PAGE))}
        asked |= {"cursor": cursor} if cursor else {}
        answer = await client.call("GET", ROOT, query=asked)
        rows += answer["result"]
        cursor = (answer.get("result_info") or {}).get("cursor", "")
        if not cursor or not answer["result"] or len(rows) >= limit:
            return rows


@app.command("watch")
def watch(session_id: options.SessionId, as_json: options.AsJson = False) -> None:
    """Follow a session to its end, an event per line; ends with 0 when there is a profile."""

    async def read(client: Api) -> None:
        with progress.bar(f"session {session_id}") as shown:
            async for event in events.follow(client, session_id):
                line = (
                    json.dumps({"id": event.id, "event": event.kind, "data": event.data})
                    if as_json
                    else taking.said(event)
                )
                if line:
                    print(line, flush=True)
                if event.kind == "progress":
                    shown.at(event.data["sampled_ms"], event.data["duration_ms"])
                if event.ends:
                    taking.check(event.data)

    outcome.run(read)


@app.command("create")
def create(
    worker_id: options.WorkerId,
    duration_ms: options.DurationMs,
    version: Annotated[
        str, typer.Option(help="UUID, a prefix of one of at least 8 characters, or 'latest'.")
    ] = "latest",
    profile_type: options.ProfileType = options.ProfileTypeName.CPU,
    sampling_interval_us: Annotated[
        int | None, typer.Option("--sampling-interval-us", help="100 to 100000; 1000 if not given.")
    ] = None,
    namespace_id: options.NamespaceId = None,
    actor_id: options.ActorId = None,
    actor_name: options.ActorName = None,
    isolates: Annotated[
        int,
        typer.Option(metavar="N", help="How many isolates to sample together, 1 to 64."),
    ] = 1,
    datacenter: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only there; may be given several times."),
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="NAME=TEXT", help="Kept with it; repeatable.")
    ] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option("--idempotency-key", help="Sent again with the same key, it is one session."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for its end and show its isolates.")
    ] = False,
    file: options.Output = None,
) -> None:
    """Ask for a session; with --wait or --output, wait for it.

    Ctrl-C while it waits cancels the session.
    """
    body: dict[str, Any] = {
        "worker": worker_id,
        "version": version,
        "duration_ms": duration_ms,
        "profile_type": profile_type.value,
        "isolates": isolates,
    }
    labels = dict(one.partition("=")[::2] for one in label or ())
    given = {
        "sampling_interval_us": sampling_interval_us,
        "namespace_id": namespace_id,
        "actor_id": actor_id,
        "actor_name": actor_name,
        "datacenters": datacenter or None,
        "labels": labels or None,
    }
    body |= {name: value for name, value in given.items() if value is not None}
    headers = {"Idempotency-Key": idempotency_key} if idempotency_key is not None else None

    async def ask(client: Api) -> tuple[dict[str, Any], Profile | None]:
        if file is not None:
            output.check(file)
        asked = await client.call("POST", ROOT, body=body, headers=headers)
        if not wait and file is None:
            return asked, None
        what = f"sampling {isolates} of {worker_id}, version {version}: {profile_type}"
        ended = await taking.ended(client, asked["result"]["id"], what)
        if file is None or ended["result"]["state"] != "ready":
            return ended, None
        return ended, await client.profile("GET", ROOT, ended["result"]["id"], "profile")

    envelope, taken = outcome.run(ask)
    session = envelope["result"]
    if not wait and file is None:
        _print(envelope)
        return
    if wait:
        parts.show(session)
    progress.say(parts.told(session))
    if session["state"] != "ready":
        raise typer.Exit(outcome.Exit.API_ERROR)
    if taken is not None:
        outcome.deliver(taken, file)


@app.command("parts")
def show_parts(session_id: options.SessionId, as_json: options.AsJson = False) -> None:
    """Show the isolates of a session, one a line: where they are and what came of each."""
    session = outcome.run(lambda client: client.call("GET", ROOT, session_id))["result"]
    parts.show(session, as_json=as_json)
    progress.say(parts.told(session))


@app.command("show")
def show(session_id: options.SessionId) -> None:
    """Show a session with its captures, as JSON."""
    _print(outcome.run(lambda client: client.call("GET", ROOT, session_id)))


@app.command("stop")
def stop(session_id: options.SessionId) -> None:
    """End sampling early and keep the profile of what was sampled."""
    _print(outcome.run(lambda client: client.call("POST", ROOT, session_id, "stop")))


@app.command("cancel")
def cancel(session_id: options.SessionId) -> None:
    """End the session and drop what it has sampled."""
    _print(outcome.run(lambda client: client.call("DELETE", ROOT, session_id)))


@app.command("profile")
def profile(
    session_id: options.SessionId,
    capture: Annotated[
        int | None,
        typer.Option(metavar="N", help="Only what this capture brought, of several isolates."),
    ] = None,
    file: options.Output = None,
) -> None:
    """Write a ready session's profile as pprof."""
    place = [session_id] if capture is None else [session_id, "captures", str(capture)]

    async def fetch(client: Api) -> Profile:
        output.check(file)
        return await client.profile("GET", ROOT, *place, "profile")

    outcome.deliver(outcome.run(fetch), file)


def _print(envelope: dict[str, Any]) -> None:
    table.console().print_json(data=envelope["result"])
