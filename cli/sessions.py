"""``isoprof sessions …``: captures that were asked for, found again by their id."""

from typing import Annotated, Any

import typer

from cli import options, outcome, output, table
from cli.api import Api, Profile

ROOT = "profile-sessions"
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
def profile(session_id: options.SessionId, file: options.Output = None) -> None:
    """Write a ready session's profile as pprof."""

    async def fetch(client: Api) -> Profile:
        output.check(file)
        return await client.profile("GET", ROOT, session_id, "profile")

    outcome.deliver(outcome.run(fetch), file)


def _print(envelope: dict[str, Any]) -> None:
    table.console().print_json(data=envelope["result"])
