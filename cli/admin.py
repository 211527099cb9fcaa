"""``isoprof admin …``: what operators do, over their own listener with their own token."""

from typing import Annotated, Any

import typer

from cli import outcome, settings, table

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Name = Annotated[str, typer.Argument(metavar="NAME")]
AccountId = Annotated[str, typer.Argument(metavar="ACCOUNT", help="32 hex digits.")]
TokenId = Annotated[str, typer.Argument(metavar="TOKEN", help="The token's id, not its text.")]
WithinS = Annotated[
    int | None,
    typer.Option(
        "--within-s",
        metavar="SECONDS",
        help="Stop what still runs after so long, profiles kept; without it all may finish.",
    ),
]
ExpiresInS = Annotated[
    int | None, typer.Option("--expires-in-s", metavar="SECONDS", help="Never, when not given.")
]
Limit = Annotated[int, typer.Option(min=1, max=100, help="How many.")]
Cursor = Annotated[str | None, typer.Option(help="Where the page before ended.")]


def _group(what: str) -> typer.Typer:
    return typer.Typer(no_args_is_help=True, help=what)


app = _group("Operate the fleet: ISOPROF_ADMIN_URL and ISOPROF_OPERATOR_TOKEN say where and who.")
agents = _group("Metals and their agents.")
datacenters = _group("Datacenters.")
sessions = _group("Sessions of all accounts.")
accounts = _group("Accounts, and what they may use.")
tokens = _group("Tokens of accounts.")
operator_tokens = _group("Tokens of operators.")
dispatch = _group("The switch that turns profiling off for everybody.")
for _name, _part in (
    ("agents", agents),
    ("datacenters", datacenters),
    ("sessions", sessions),
    ("accounts", accounts),
    ("tokens", tokens),
    ("operator-tokens", operator_tokens),
    ("dispatch", dispatch),
):
    app.add_typer(_part, name=_name)


@app.command("health")
def health() -> None:
    """Show how every part is."""
    _print("GET", "health")


@app.command("audit")
def audit(
    actor: Annotated[str | None, typer.Option(help="Only what this actor did.")] = None,
    action: Annotated[str | None, typer.Option(help="Only this action.")] = None,
    outcome_of: Annotated[
        str | None, typer.Option("--outcome", help="Only what was done, or refused.")
    ] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List who did what, newest first."""
    query = {"actor": actor, "action": action, "outcome": outcome_of}
    columns = ("entry", "at", "actor", "address", "action", "target", "outcome", "times")
    _list(("audit",), columns, query, limit, cursor, as_json=as_json)


@app.command("explain")
def explain(
    account: Annotated[str, typer.Option(help="Whose Worker.")],
    worker_id: Annotated[str, typer.Option("--worker-id", help="Its id or name.")],
    version: Annotated[str, typer.Option(help="UUID, prefix, or latest.")] = "latest",
) -> None:
    """Show where a version would be captured now, and why not elsewhere."""
    query = {"account": account, "worker": worker_id, "version": version}
    _print("GET", "placement", "explain", query=query)


@agents.command("list")
def list_agents(
    datacenter: Annotated[str | None, typer.Option(help="Only those in it.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List metals by name."""
    columns = ("id", "datacenter", "draining", "drain_until", "live_captures", "reported_at")
    _list(("agents",), columns, {"datacenter": datacenter}, limit, cursor, as_json=as_json)


@agents.command("show")
def show_agent(metal: Name) -> None:
    """Show one metal."""
    _print("GET", "agents", metal)


@agents.command("drain")
def drain_agent(metal: Name, within_s: WithinS = None) -> None:
    """Have nothing new land on a metal."""
    _print("POST", "agents", metal, "drain", body={"within_s": within_s})


@agents.command("undrain")
def undrain_agent(metal: Name) -> None:
    """Let captures land on a metal again."""
    _print("POST", "agents", metal, "undrain")


@datacenters.command("list")
def list_datacenters(limit: Limit = 100, cursor: Cursor = None, as_json: AsJson = False) -> None:
    """List datacenters by name."""
    columns = ("name", "metals", "draining", "drain_until", "live_captures")
    _list(("datacenters",), columns, {}, limit, cursor, as_json=as_json)


@datacenters.command("drain")
def drain_datacenter(name: Name, within_s: WithinS = None) -> None:
    """Have nothing new land in a datacenter."""
    _print("POST", "datacenters", name, "drain", body={"within_s": within_s})


@datacenters.command("undrain")
def undrain_datacenter(name: Name) -> None:
    """Let captures land in a datacenter again."""
    _print("POST", "datacenters", name, "undrain")


@sessions.command("list")
def list_sessions(
    account: Annotated[str | None, typer.Option(help="Only this account's.")] = None,
    state: Annotated[str | None, typer.Option(help="Only those in this state.")] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List sessions, newest first."""
    columns = ("id", "account", "state", "reason", "worker", "version", "created_at")
    query = {"account": account, "state": state}
    _list(("sessions",), columns, query, limit, cursor, as_json=as_json)


@sessions.command("show")
def show_session(session: Name) -> None:
    """Show a session with its captures and its history."""
    _print("GET", "sessions", session)


@sessions.command("cancel")
def cancel_session(session: Name) -> None:
    """End a session and drop what it has sampled."""
    _print("POST", "sessions", session, "cancel")


@accounts.command("list")
def list_accounts(limit: Limit = 100, cursor: Cursor = None, as_json: AsJson = False) -> None:
    """List accounts by id."""
    columns = ("id", "name", "profiling_enabled", "limits", "created_at")
    _list(("accounts",), columns, {}, limit, cursor, as_json=as_json)


@accounts.command("show")
def show_account(account: AccountId) -> None:
    """Show one account."""
    _print("GET", "accounts", account)


@accounts.command("create")
def create_account(
    name: Name,
    account_id: Annotated[str | None, typer.Option("--id", help="Made, when not given.")] = None,
) -> None:
    """Make an account."""
    body: dict[str, Any] = {"name": name}
    _print("POST", "accounts", body=body | ({"id": account_id} if account_id else {}))


@accounts.command("change")
def change_account(
    account: AccountId,
    profiling: Annotated[bool | None, typer.Option(help="Whether it may take profiles.")] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            metavar="NAME=NUMBER",
            help="max_concurrent_sessions, max_sessions_per_hour, max_capture_seconds_per_hour, "
            "retention_days or weight; NAME=default for the server's own. Repeatable.",
        ),
    ] = None,
) -> None:
    """Switch an account's profiling, set its limits. What is not named stays."""
    body: dict[str, Any] = {"profiling_enabled": profiling} if profiling is not None else {}
    limits = dict(_limit(one) for one in limit or ())
    _print("PATCH", "accounts", account, body=body | ({"limits": limits} if limits else {}))


@tokens.command("list")
def list_tokens(
    account: AccountId, limit: Limit = 100, cursor: Cursor = None, as_json: AsJson = False
) -> None:
    """List an account's tokens."""
    columns = ("id", "name", "permissions", "expires_at", "revoked_at", "last_used_at")
    _list(("accounts", account, "tokens"), columns, {}, limit, cursor, as_json=as_json)


@tokens.command("create")
def create_token(
    account: AccountId,
    name: Name,
    permission: Annotated[
        list[str] | None,
        typer.Option(
            help="Workers Scripts Read (when none is given), Workers Scripts Write, "
            "Workers Profiling. Repeatable."
        ),
    ] = None,
    expires_in_s: ExpiresInS = None,
) -> None:
    """Make a token; its text is shown now and never again."""
    body: dict[str, Any] = {"name": name, "expires_in_s": expires_in_s}
    body |= {"permissions": permission} if permission else {}
    _print("POST", "accounts", account, "tokens", body=body)


@tokens.command("revoke")
def revoke_token(account: AccountId, token: TokenId) -> None:
    """End a token at once."""
    _print("DELETE", "accounts", account, "tokens", token)


@operator_tokens.command("list")
def list_operator_tokens(
    limit: Limit = 100, cursor: Cursor = None, as_json: AsJson = False
) -> None:
    """List operators' tokens."""
    columns = ("id", "name", "created_at", "expires_at", "revoked_at", "last_used_at")
    _list(("operator-tokens",), columns, {}, limit, cursor, as_json=as_json)


@operator_tokens.command("create")
def create_operator_token(name: Name, expires_in_s: ExpiresInS = None) -> None:
    """Make an operator's token; its text is shown now and never again."""
    _print("POST", "operator-tokens", body={"name": name, "expires_in_s": expires_in_s})


@operator_tokens.command("revoke")
def revoke_operator_token(token: TokenId) -> None:
    """End an operator's token at once."""
    _print("DELETE", "operator-tokens", token)


@dispatch.command("show")
def show_dispatch() -> None:
    """Show how the switch stands."""
    _print("GET", "dispatch")


@dispatch.command("on")
def dispatch_on() -> None:
    """Switch profiling on."""
    _print("PUT", "dispatch", body={"turned_on": True})


@dispatch.command("off")
def dispatch_off(
    reason: Annotated[str, typer.Option(help="For those who look at it later.")] = "",
) -> None:
    """Switch profiling off, for all accounts and on every replica."""
    _print("PUT", "dispatch", body={"turned_on": False, "reason": reason})


def _limit(text: str) -> tuple[str, int | None]:
    name, _, number = text.partition("=")
    if number == "default":
        return name, None
    if not number.isdigit():
        raise typer.BadParameter(f"{text}: must be NAME=NUMBER or NAME=default")
    return name, int(number)


def _print(
    method: str,
    *path: str,
    query: dict[str, str] | None = None,
    body: dict[str, Any] | None = None,
) -> None:
    told = _call(method, path, query=query, body=body)
    table.console().print_json(data=told["result"])


def _list(
    path: tuple[str, ...],
    columns: tuple[str, ...],
    query: dict[str, str | None],
    limit: int,
    cursor: str | None,
    *,
    as_json: bool,
) -> None:
    given = query | {"limit": str(limit), "cursor": cursor}
    sent = {name: value for name, value in given.items() if value is not None}
    told = _call("GET", path, query=sent)
    table.show(told["result"], columns, as_json=as_json)
    after = told.get("result_info", {}).get("cursor")
    if after and not as_json:
        typer.echo(f"more: --cursor {after}", err=True)


def _call(
    method: str,
    path: tuple[str, ...],
    *,
    query: dict[str, str] | None = None,
    body: dict[str, Any] | None = None,
) -> dict[str, Any]:
    return outcome.run(
        lambda client: client.call(method, *path, query=query, body=body),
        load=settings.load_operator,
    )
