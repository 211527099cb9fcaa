"""Which versions get a Worker's traffic, and where a version runs; in the shapes clients parse."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from contract import ids
from contract.faults import FieldError
from control_plane import admission
from control_plane.api import auth, edge, envelope, schema, strict_json
from control_plane.api.parts import PARTS
from control_plane.api.session_view import timestamp
from control_plane.api.workers import named_worker
from control_plane.store import deployments, workers
from control_plane.store.deployments import Deployment, Share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import web

    from control_plane.store.database import Connection
    from control_plane.store.deployments import Place, Running
    from control_plane.store.workers import Worker

# What adds up to a hundred percent when everybody rounds.
_ROUNDED = 0.01
# Names the deployment that telemetry shows; the same versions give the same id.
_SEEN = uuid.UUID("5b0c2d6e-8a41-4a8e-9c1d-2f7d3f6f4c11")


class ShareBody(BaseModel):
    """One version's part."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    version_id: Annotated[str, Field(min_length=1, max_length=36)]
    percentage: Annotated[float, Field(gt=0, le=100)]


class DeploymentBody(BaseModel):
    """Body that tells a deployment."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    strategy: Literal["percentage"] = "percentage"
    versions: Annotated[list[ShareBody], Field(min_length=1, max_length=64)]
    annotations: Annotated[
        dict[schema.AnnotationName, Annotated[str, Field(max_length=1_000)]], Field(max_length=16)
    ] = {}


async def list_deployments(request: web.Request) -> web.Response:
    """Answer a Worker's deployments, the active one first.

    Where nobody told any, what runs by telemetry is answered as one.
    """
    account_id = await auth.account(request)
    name = named_worker(request)
    parts = request.app[PARTS]
    async with parts.db.read() as conn:
        owner = await admission.resolve_worker(conn, account_id, name)
        told = await deployments.of_worker(conn, account_id, owner.worker_id)
        running: tuple[Running, ...] = ()
        if not told:
            running = await deployments.running(
                conn, account_id, owner.worker_id, recent_ms=parts.settings.recent_ms
            )
    views = [_view(one, source="api") for one in told]
    if running:
        views = [_view(seen(running), source="telemetry")]
    return envelope.ok({"deployments": views})


async def create(request: web.Request) -> web.Response:
    """Take down which versions get a Worker's traffic."""
    account_id = await auth.account(request)
    name = named_worker(request)
    asked = schema.body(DeploymentBody, strict_json.parse(await edge.body(request)))
    shares = tuple(
        Share(version_id=one.version_id.lower(), percentage=one.percentage)
        for one in asked.versions
    )
    async with request.app[PARTS].db.begin() as conn:
        owner = await admission.resolve_worker(conn, account_id, name)
        await _check(conn, owner, shares)
        made = await deployments.add(
            conn,
            account_id,
            owner.worker_id,
            str(uuid.uuid4()),
            message=asked.annotations.get("workers/message", ""),
            versions=shares,
        )
    return envelope.ok(_view(made, source="api"))


async def show_activity(request: web.Request) -> web.Response:
    """Answer where a version ran lately, and how much, by datacenter."""
    account_id = await auth.account(request)
    name = named_worker(request, more=schema.version(request.match_info["version"]))
    parts = request.app[PARTS]
    async with parts.db.read() as conn:
        owner = await admission.resolve_worker(conn, account_id, name)
        version = await admission.resolve_version(conn, owner, request.match_info["version"])
        found = await deployments.places(conn, account_id, owner.worker_id, version.version_id)
    return envelope.ok(
        {
            "version_id": version.version_id,
            "recent_ms": parts.settings.recent_ms,
            "datacenters": [_place(one, parts.settings.recent_ms) for one in found],
        }
    )


def seen(running: Sequence[Running]) -> Deployment:
    """Tell what runs as a deployment: each version's part of the executions, 100 in all.

    Args:
        running: at least one.
    """
    whole = sum(one.executions for one in running)
    weights = [one.executions if whole else 1 for one in running]
    total = sum(weights)
    # In hundredths of a percent; what rounding leaves goes to the newest.
    parts = [weight * 10_000 // total for weight in weights]
    parts[0] += 10_000 - sum(parts)
    shares = tuple(
        Share(version_id=one.version_id, percentage=part / 100)
        for one, part in zip(running, parts, strict=True)
        if part
    )
    names = ",".join(sorted(one.version_id for one in running))
    return Deployment(
        deployment_id=str(uuid.uuid5(_SEEN, names)),
        created_at=max(one.created_at for one in running),
        message="",
        versions=shares,
    )


async def _check(conn: Connection, owner: Worker, shares: Sequence[Share]) -> None:
    wrong: list[FieldError] = []
    named = [one.version_id for one in shares]
    for index, version_id in enumerate(named):
        pointer = f"/versions/{index}/version_id"
        if not ids.is_uuid(version_id):
            wrong.append(FieldError(pointer=pointer, message="Must be a version's UUID."))
        elif version_id in named[:index]:
            wrong.append(FieldError(pointer=pointer, message="Must be given once."))
        elif not await workers.versions_by_prefix(
            conn, owner.account_id, owner.worker_id, version_id, limit=1
        ):
            wrong.append(FieldError(pointer=pointer, message="This Worker has no such version."))
    whole = sum(one.percentage for one in shares)
    if abs(whole - 100) > _ROUNDED:
        message = f"The percentages must add up to 100, not {whole:g}."
        wrong.append(FieldError(pointer="/versions", message=message))
    if wrong:
        raise schema.invalid(wrong)


def _view(one: Deployment, *, source: str) -> dict[str, Any]:
    return {
        "id": one.deployment_id,
        "created_on": timestamp(one.created_at),
        "source": source,
        "strategy": "percentage",
        "author_email": "",
        "annotations": {"workers/message": one.message} if one.message else {},
        "versions": [
            {"version_id": share.version_id, "percentage": share.percentage}
            for share in one.versions
        ],
    }


def _place(one: Place, recent_ms: int) -> dict[str, Any]:
    return {
        "datacenter": one.datacenter,
        "metals": one.metals,
        "isolates": one.isolates,
        "free_isolates": one.free_isolates,
        "executions": one.executions,
        "ran_at": None if one.ran_at is None else timestamp(one.ran_at),
        "ran_lately": one.idle_ms is not None and one.idle_ms <= recent_ms,
    }
