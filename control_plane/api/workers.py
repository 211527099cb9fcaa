"""Workers and their versions, in the shapes published clients parse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from control_plane import admission
from control_plane.api import auth, envelope, schema
from control_plane.api.parts import PARTS
from control_plane.api.session_view import timestamp
from control_plane.store import workers

if TYPE_CHECKING:
    from aiohttp import web

    from contract.faults import FieldError
    from control_plane.store.workers import Version, Worker


async def list_workers(request: web.Request) -> web.Response:
    """Answer one page of the account's Workers."""
    account_id = await auth.account(request)
    asked = schema.query(schema.PageQuery, request.query)
    async with request.app[PARTS].db.read() as conn:
        found, total = await workers.page(
            conn, account_id, offset=asked.offset, limit=asked.per_page
        )
    views = [worker_view(one) for one in found]
    return envelope.page(views, page=asked.page, per_page=asked.per_page, total=total)


async def show_worker(request: web.Request) -> web.Response:
    """Answer one Worker, by id or name."""
    account_id = await auth.account(request)
    name = named_worker(request)
    async with request.app[PARTS].db.read() as conn:
        found = await admission.resolve_worker(conn, account_id, name)
    return envelope.ok(worker_view(found))


async def list_versions(request: web.Request) -> web.Response:
    """Answer one page of a Worker's versions, newest first."""
    asked, found, total = await _versions(request)
    views = [version_view(one) for one in found]
    return envelope.page(views, page=asked.page, per_page=asked.per_page, total=total)


async def show_version(request: web.Request) -> web.Response:
    """Answer one version, by UUID, prefix or ``latest``."""
    return envelope.ok(version_view(await _version(request)))


def worker_view(worker: Worker) -> dict[str, Any]:
    """Build the published shape; what isoprof does not know is empty, never missing."""
    return {
        "id": worker.worker_id,
        "name": worker.name,
        "created_on": timestamp(worker.created_at),
        "updated_on": timestamp(worker.updated_at),
        "logpush": False,
        "tags": [],
        "tail_consumers": [],
        "observability": {"enabled": False},
        "subdomain": {"enabled": False, "previews_enabled": False},
        "references": {
            "dispatch_namespace_outbounds": [],
            "domains": [],
            "durable_objects": [],
            "queues": [],
            "workers": [],
        },
    }


def version_view(version: Version) -> dict[str, Any]:
    """Build the published shape."""
    return {
        "id": version.version_id,
        "number": version.number,
        "created_on": timestamp(version.created_at),
        "urls": [],
    }


async def list_script_versions(request: web.Request) -> web.Response:
    """Answer one page of a Worker's versions in the older shape, newest first."""
    asked, found, total = await _versions(request)
    items = [script_version_view(one) for one in found]
    info = envelope.page_info(
        page=asked.page, per_page=asked.per_page, count=len(items), total=total
    )
    return envelope.ok({"items": items}, info=info)


async def show_script_version(request: web.Request) -> web.Response:
    """Answer one version in the older shape."""
    return envelope.ok(script_version_view(await _version(request)))


async def _versions(request: web.Request) -> tuple[schema.PageQuery, tuple[Version, ...], int]:
    """Read the page of versions a request asks for, and how many there are."""
    account_id = await auth.account(request)
    name = named_worker(request)
    asked = schema.query(schema.PageQuery, request.query)
    async with request.app[PARTS].db.read() as conn:
        owner = await admission.resolve_worker(conn, account_id, name)
        found, total = await workers.versions_page(
            conn, account_id, owner.worker_id, offset=asked.offset, limit=asked.per_page
        )
    return asked, found, total


async def _version(request: web.Request) -> Version:
    account_id = await auth.account(request)
    text = request.match_info["version"]
    name = named_worker(request, more=schema.version(text))
    async with request.app[PARTS].db.read() as conn:
        owner = await admission.resolve_worker(conn, account_id, name)
        return await admission.resolve_version(conn, owner, text)


def script_version_view(version: Version) -> dict[str, Any]:
    """Build the older published shape."""
    return {
        "id": version.version_id,
        "number": version.number,
        "metadata": {
            "created_on": timestamp(version.created_at),
            "modified_on": timestamp(version.created_at),
            "source": "api",
            "author_id": "",
            "author_email": "",
        },
        "annotations": {},
        "resources": {"bindings": [], "script": {}, "script_runtime": {}},
    }


def named_worker(request: web.Request, *, more: list[FieldError] | None = None) -> str:
    """Return the Worker a path names, by id or name.

    Args:
        more: what else is wrong with the path, told together.

    Raises:
        Fault: request_invalid.
    """
    name = request.match_info["worker"]
    wrong = schema.worker(name) + (more or [])
    if wrong:
        raise schema.invalid(wrong)
    return name
