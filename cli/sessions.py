"""``isoprof sessions …``: captures that were asked for, found again by their id."""

import asyncio
from typing import Annotated, Any

import typer

from cli import options, outcome, output, parts, progress, table
from cli.api import Api, Profile

ROOT = "profile-sessions"
POLL_S = 0.5
COLUMNS = ("id", "state", "worker", "version", "profile_type", "duration_ms", "created_at")

app = typer.Typer(no_args_is_help=True, help="Profile sessions of the account.")


@app.command("list")
def list_sessions(
    state: Annotated[str | None, typer.Option(help="Only those in this state.")] = None,
    worker: Annotated[str | None, typer.Option(help="Only those of this Worker.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many, newest first.")] = 20,
    as_json: options.AsJson = False,
) -> None:
    """List sessions, newest first."""
    given = {"state": state, "worker": worker, "limit": str(limit)}
    query = {name: value for name, value in given.items() if value is not None}
    rows = outcome.run(lambda client: client.call("GET", ROOT, query=query))["result"]
    table.show(rows, COLUMNS, as_json=as_json)


@app.command("create")
def create(
    worker_id: options.WorkerId,
    duration_ms: Annotated[
        int, typer.Option("--duration-ms", metavar="N", help="How long to sample, 1000 to 50000.")
    ],
    version: Annotated[
        str, typer.Option(help="UUID, a prefix of one of at least 8 characters, or 'latest'.")
    ] = "latest",
    profile_type: Annotated[
        options.ProfileTypeName, typer.Option("--profile-type", help="CPU time or allocations.")
    ] = options.ProfileTypeName.CPU,
    isolates: Annotated[
        int,
        typer.Option(metavar="N", help="How many isolates to sample together, 1 to 64."),
    ] = 1,
    datacenter: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only there; may be given several times."),
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
    body |= {"datacenters": datacenter} if datacenter else {}

    async def ask(client: Api) -> tuple[dict[str, Any], Profile | None]:
        if file is not None:
            output.check(file)
        asked = await client.call("POST", ROOT, body=body)
        if not wait and file is None:
            return asked, None
        what = f"sampling {isolates} of {worker_id}, version {version}: {profile_type}"
        async with progress.sampling(what, duration_ms=duration_ms):
            ended = await _ended(client, asked["result"]["id"])
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


async def _ended(client: Api, session_id: str) -> dict[str, Any]:
    """Follow a session to its end; leaving before that, cancel it."""
    try:
        while True:
            envelope = await client.call("GET", ROOT, session_id)
            if envelope["result"]["ended_at"] is not None:
                return envelope
            await asyncio.sleep(POLL_S)
    except asyncio.CancelledError:
        await client.call("DELETE", ROOT, session_id)
        raise


def _print(envelope: dict[str, Any]) -> None:
    table.console().print_json(data=envelope["result"])
