"""From a request to a queued session: who asks, for what, and may they."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from contract.faults import Fault, FieldError, Reason
from contract.ids import LATEST, VERSION_PREFIX, actor_id_of
from contract.messages import Actor, ProfileType
from control_plane import isolates
from control_plane import quota as quotas_rule
from control_plane.quota import Allowed, Quota
from control_plane.session import SessionEvent, lifetime_ms
from control_plane.store import (
    accounts,
    captures,
    idempotency,
    metals,
    quotas,
    sessions,
    workers,
)
from control_plane.store.captures import Stop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from control_plane.settings import Settings
    from control_plane.store.accounts import Owned
    from control_plane.store.database import Connection, Database
    from control_plane.store.idempotency import Key
    from control_plane.store.sessions import Session
    from control_plane.store.workers import Version, Worker

_MOST_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class NamedActor:
    """A Durable Object by the name its Worker calls it."""

    namespace_id: str
    name: str


@dataclass(frozen=True, kw_only=True)
class ProfileRequest:
    """What is asked for, in the caller's words.

    Args:
        worker: id or name.
        version: UUID, a prefix of it, or ``latest``.
        origin: ``sync`` for a caller that waits, ``api`` for one that asks again by id.
        isolates: how many to capture at the same time; 1 for an actor.
        datacenters: the only ones to capture in; empty for any.
    """

    worker: str
    version: str = LATEST
    profile_type: ProfileType = ProfileType.CPU
    duration_ms: int
    sampling_interval_us: int = 1000
    actor: Actor | NamedActor | None = None
    labels: dict[str, str] = field(default_factory=dict)
    origin: Literal["sync", "api"] = "api"
    isolates: int = 1
    datacenters: tuple[str, ...] = ()


async def resolve_worker(conn: Connection, account_id: str, worker: str) -> Worker:
    """Find a Worker by id or name.

    Raises:
        Fault: worker_unknown.
    """
    found = await workers.find(conn, account_id, worker)
    if found is None:
        raise Fault(Reason.WORKER_UNKNOWN, "This Worker does not exist on your account.")
    return found


async def resolve_version(conn: Connection, worker: Worker, version: str) -> Version:
    """Find a version by UUID, prefix, or ``latest``: the one created last, deployed or not.

    Raises:
        Fault: version_unknown; version_ambiguous, naming up to five.
    """
    wanted = version.lower()
    prefix = "" if wanted == LATEST else wanted
    if prefix and not VERSION_PREFIX.match(prefix):
        raise _version_unknown(version)
    found = await workers.versions_by_prefix(
        conn,
        worker.account_id,
        worker.worker_id,
        prefix,
        limit=1 if not prefix else _MOST_NAMED + 1,
    )
    if not found:
        raise _version_unknown(version)
    if len(found) > 1:
        named = ", ".join(v.version_id for v in found[:_MOST_NAMED])
        more = ", …" if len(found) > _MOST_NAMED else ""
        raise Fault(
            Reason.VERSION_AMBIGUOUS, f"Several versions begin with {version}: {named}{more}"
        )
    return found[0]


def _version_unknown(version: str) -> Fault:
    return Fault(Reason.VERSION_UNKNOWN, f"This Worker has no version {version[:64]}.")


async def admit(
    db: Database,
    account_id: str,
    request: ProfileRequest,
    session_id: str,
    settings: Settings,
    key: Key | None = None,
) -> Session:
    """Make the session, queued, with its history, and wake dispatch: all of it or nothing.

    Called again with the same id, or the same key, it returns the session made before; so a commit
    whose answer was lost is tried once more here.

    Args:
        key: the caller's own, under which it may repeat the request.

    Raises:
        Fault: profiling_disabled, worker_unknown, version_unknown, version_ambiguous,
            actor_inactive for a namespace of another Worker, request_invalid for a name no id can
            be derived from and for an unknown datacenter, idempotency_key_reused,
            account_quota, dispatch_off, store_unavailable.
    """
    try:
        return await _admit(db, account_id, request, session_id, settings, key)
    except Fault as fault:
        if fault.reason is not Reason.STORE_UNAVAILABLE:
            raise
        return await _admit(db, account_id, request, session_id, settings, key)


async def _admit(
    db: Database,
    account_id: str,
    request: ProfileRequest,
    session_id: str,
    settings: Settings,
    key: Key | None,
) -> Session:
    # In turn: an account that sends much at once takes one connection of the pool, not all.
    async with db.begin(in_turn=f"admission {account_id}") as conn:
        if key is not None:
            # First of all: a repeated request is answered as it was, whatever has changed since.
            made = await _made_before(conn, account_id, key, session_id, settings)
            if made is not None:
                return made
        # Locked until the commit, so that replicas count what it has used one after the other.
        owned = await accounts.show(conn, account_id, lock=True)
        if owned is None or not owned.account.profiling_enabled:
            raise Fault(Reason.PROFILING_DISABLED, "Profiling is not enabled for this account.")
        if not owned.dispatch_on:
            raise Fault(Reason.DISPATCH_OFF, "Profiling is switched off.")
        worker = await resolve_worker(conn, account_id, request.worker)
        version = await resolve_version(conn, worker, request.version)
        actor, actor_name = await _actor(conn, worker, request.actor)
        await _there(conn, request.datacenters)
        try:
            await _within_quota(conn, owned, request, settings)
        except Fault:
            # What its own first try made, its answer lost, may be what used the quota up.
            before = await sessions.read(conn, account_id, session_id)
            if before is None:
                raise
            return before
        return await sessions.add(
            conn,
            sessions.Wanted(
                account_id=account_id,
                session_id=session_id,
                origin=request.origin,
                worker_id=worker.worker_id,
                worker_name=worker.name,
                version_id=version.version_id,
                profile_type=request.profile_type,
                duration_ms=request.duration_ms,
                sampling_interval_us=request.sampling_interval_us,
                actor=actor,
                actor_name=actor_name,
                labels=request.labels,
                isolates=request.isolates,
                datacenters=request.datacenters,
                weight=owned.limits.weight,
                lifetime_ms=lifetime_ms(request.duration_ms, settings.session_slack_ms),
            ),
        )


async def _within_quota(
    conn: Connection, owned: Owned, request: ProfileRequest, settings: Settings
) -> None:
    """Make sure that an account, its row locked, may begin one more session.

    Raises:
        Fault: account_quota; request_invalid for more sampling than any hour allows.
    """
    account_id, limits = owned.account.account_id, owned.limits
    of = {one.value: getattr(limits, one.value) for one in Quota}
    defaults = {one.value: getattr(settings, one.value) for one in Quota}
    allowed = Allowed(**{name: defaults[name] if own is None else own for name, own in of.items()})
    wanted_ms = request.duration_ms * request.isolates
    if allowed.max_capture_seconds_per_hour and quotas_rule.fits_never(allowed, wanted_ms):
        message = (
            f"Asks for {wanted_ms // 1000} s of sampling; the account may take "
            f"{allowed.max_capture_seconds_per_hour} s in an hour."
        )
        raise Fault(
            Reason.REQUEST_INVALID,
            message,
            fields=(FieldError(pointer="/duration_ms", message=message),),
        )
    if quotas_rule.fits_surely(allowed, await quotas.at_most(conn, account_id), wanted_ms):
        return
    now, spent = await quotas.spent(conn, account_id)
    exceeded = quotas_rule.judge(allowed, spent, wanted_ms=wanted_ms, now=now)
    if exceeded is not None:
        raise Fault(
            Reason.ACCOUNT_QUOTA,
            f"The account has used up its quota {exceeded.quota.value} of {exceeded.limit}.",
            retry_after_s=exceeded.retry_after_s,
        )


async def _made_before(
    conn: Connection, account_id: str, key: Key, session_id: str, settings: Settings
) -> Session | None:
    before = await idempotency.take(
        conn, account_id, key, session_id, kept_ms=settings.idempotency_kept_ms
    )
    if before is None:
        return None
    if before.body != key.body:
        raise Fault(
            Reason.IDEMPOTENCY_KEY_REUSED,
            "This Idempotency-Key was used for a request with another body.",
        )
    return await sessions.read(conn, account_id, before.session_id)


async def _actor(
    conn: Connection, worker: Worker, asked: Actor | NamedActor | None
) -> tuple[Actor | None, str | None]:
    """Resolve the actor asked for, and the name it was asked for by."""
    if asked is None:
        return None, None
    namespace = await workers.namespace(conn, worker.account_id, asked.namespace_id)
    if namespace is None or namespace.worker_id != worker.worker_id:
        raise Fault(
            Reason.ACTOR_INACTIVE,
            f"The Durable Object namespace {asked.namespace_id} does not belong to this Worker.",
        )
    if isinstance(asked, Actor):
        return asked, None
    if not namespace.unique_key:
        message = (
            "No agent has told the unique key of this namespace, which ids are derived from; give "
            "actor_id instead."
        )
        raise Fault(
            Reason.REQUEST_INVALID,
            message,
            fields=(FieldError(pointer="/actor_name", message=message),),
        )
    actor_id = actor_id_of(namespace.unique_key, asked.name)
    return Actor(namespace_id=asked.namespace_id, actor_id=actor_id), asked.name


async def _there(conn: Connection, datacenters: Sequence[str]) -> None:
    """Refuse datacenters in which no metal has ever reported.

    Raises:
        Fault: request_invalid, naming each.
    """
    if not datacenters:
        return
    known = await metals.datacenters(conn, datacenters)
    fields = tuple(
        FieldError(pointer=f"/datacenters/{index}", message=f"There is no datacenter {name}.")
        for index, name in enumerate(datacenters)
        if name not in known
    )
    if fields:
        told = "; ".join(f"{field.pointer}: {field.message}" for field in fields)
        raise Fault(Reason.REQUEST_INVALID, told, fields=fields)


async def show(db: Database, account_id: str, session_id: str) -> Session:
    """Read a session of the account.

    Raises:
        Fault: session_unknown, for another account's as for one that never was.
    """
    async with db.read() as conn:
        session = await sessions.read(conn, account_id, session_id)
    if session is None:
        raise _session_unknown()
    return session


async def cancel(db: Database, account_id: str, session_id: str, *, discard: bool) -> Session:
    """End a session early, keeping what was sampled or dropping it. Idempotent.

    The agents are told by dispatch, from what is written here. A session that has ended stays as it
    is.

    Raises:
        Fault: session_unknown.
    """
    async with db.begin() as conn:
        return await end_early(conn, account_id, session_id, discard=discard)


async def end_early(
    conn: Connection, account_id: str, session_id: str, *, discard: bool, by: str = "its owner"
) -> Session:
    """Do what ``cancel`` does, within a transaction.

    Raises:
        Fault: session_unknown.
    """
    session = await sessions.lock(conn, session_id, account_id=account_id)
    if session is None:
        raise _session_unknown()
    if not session.live:
        return session
    tried = await captures.of_session(conn, account_id, session_id)
    live = [c for c in tried if c.live]
    stop = Stop.DISCARD if discard else Stop.KEEP
    for capture in live:
        if capture.stop is None or discard:
            await captures.order_stop(conn, capture, stop)
    if not discard:
        session = await sessions.stop_sampling(conn, session)
        if live:
            return session
        if isolates.goes_on(tried):
            # Due already, it is being merged, and that is not begun again.
            if not session.due:
                await sessions.make_due(conn, session)
            return session
    ended = await sessions.move(
        conn,
        session,
        SessionEvent.CANCELLED,
        reason=Reason.SESSION_CANCELLED,
        message=f"cancelled by {by}" if discard else "stopped before anything was sampled",
    )
    return ended or session


def _session_unknown() -> Fault:
    return Fault(Reason.SESSION_UNKNOWN, "This account has no such profile session.")
