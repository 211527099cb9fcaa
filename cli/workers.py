"""``isoprof workers …``: which Workers and versions there are, and a profile of one."""

from typing import Annotated, Any

import typer

from cli import options, outcome, output, progress, table, taking
from cli.api import Api, Profile, profile_timeout_s

PER_PAGE = 100
MAX_PAGES = 1_000

app = typer.Typer(no_args_is_help=True, help="Workers of the account.")
versions = typer.Typer(no_args_is_help=True, help="Versions of a Worker.")
app.add_typer(versions, name="versions")


@app.command("list")
def list_workers(as_json: options.AsJson = False) -> None:
    """List the account's Workers."""
    rows = outcome.run(lambda client: every_page(client, "workers", "workers"))
    table.show(rows, ("id", "name", "created_on", "updated_on"), as_json=as_json)


@versions.command("list")
def list_versions(worker_id: options.WorkerId, as_json: options.AsJson = False) -> None:
    """List a Worker's versions, newest first."""
    path = ("workers", "workers", worker_id, "versions")
    rows = outcome.run(lambda client: every_page(client, *path))
    table.show(rows, ("id", "number", "created_on"), as_json=as_json)


@versions.command("profile")
def profile(
    version: Annotated[
        str, typer.Argument(help="UUID, a prefix of one of at least 8 characters, or 'latest'.")
    ],
    worker_id: options.WorkerId,
    duration_ms: options.DurationMs,
    profile_type: options.ProfileType = options.ProfileTypeName.CPU,
    namespace_id: options.NamespaceId = None,
    actor_id: options.ActorId = None,
    actor_name: options.ActorName = None,
    file: options.Output = None,
) -> None:
    """Sample one isolate that runs this version now, and write its profile as pprof.

    The profile goes to standard output: add > FILE, or --output FILE. Ctrl-C stops the capture.
    """
    body: dict[str, Any] = {"duration_ms": duration_ms, "profile_type": profile_type.value}
    # Half a pair is sent as it is: the API says which half is missing.
    body |= {"actor_id": actor_id} if actor_id is not None else {}
    body |= {"namespace_id": namespace_id} if namespace_id is not None else {}
    body = dict(sorted(body.items()))

    async def take(client: Api) -> Profile:
        output.check(file)
        if actor_name is not None:
            # The route that answers with the profile itself knows objects by their id alone.
            named = {"worker": worker_id, "version": version, "actor_name": actor_name}
            what = f"sampling {actor_name} of {worker_id}, version {version}: {profile_type}"
            return await taking.profile(client, body | named, what)
        what = f"sampling {worker_id}, version {version}: {profile_type}"
        async with progress.sampling(what, duration_ms=duration_ms):
            return await client.profile(
                *("POST", "workers", "workers", worker_id, "versions", version, "profile"),
                body=body,
                timeout_s=profile_timeout_s(duration_ms),
            )

    taken = outcome.run(take)
    outcome.deliver(taken, file)


async def every_page(client: Api, *path: str) -> list[dict[str, Any]]:
    """Read a list to its end."""
    rows: list[dict[str, Any]] = []
    for page in range(1, MAX_PAGES):
        query = {"page": str(page), "per_page": str(PER_PAGE)}
        envelope = await client.call("GET", *path, query=query)
        rows += envelope["result"]
        if len(envelope["result"]) < PER_PAGE:
            break
    return rows
