"""Agents and datacenters: how they are, and emptying them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from control_plane.admin import asked
from control_plane.admin.acting import acting, document
from control_plane.api import envelope, schema
from control_plane.api.parts import PARTS
from control_plane.api.session_view import timestamp
from control_plane.store import drains

if TYPE_CHECKING:
    from aiohttp import web

    from control_plane.store.drains import DatacenterState, MetalState


async def list_agents(request: web.Request) -> web.Response:
    """Answer metals with their agents, by name."""
    query = schema.query(asked.AgentsQuery, request.query)
    async with request.app[PARTS].db.read() as conn:
        found = await drains.page(
            conn, limit=query.limit + 1, after=query.cursor, datacenter=query.datacenter
        )
    shown = found[: query.limit]
    more = len(found) > query.limit
    return envelope.cursor(
        [_metal(one) for one in shown], after=shown[-1].metal_id if more else None
    )


async def show_agent(request: web.Request) -> web.Response:
    """Answer one metal."""
    name = asked.path_name(request, "metal")
    async with request.app[PARTS].db.read() as conn:
        found = await drains.metal(conn, name)
    return envelope.ok(_metal(asked.known(found, "metal", name)))


async def drain_agent(request: web.Request) -> web.Response:
    """Have nothing new land on a metal; stop what runs there when the time is up."""
    name = asked.path_name(request, "metal")
    body = schema.body(asked.DrainBody, await document(request))
    async with acting(request, "agents.drain", name, within_s=body.within_s) as conn:
        if not await drains.drain_metal(conn, name, body.within):
            raise asked.unknown("metal", name)
        found = await drains.metal(conn, name)
    return envelope.ok(_metal(asked.known(found, "metal", name)))


async def undrain_agent(request: web.Request) -> web.Response:
    """Let captures land on a metal again."""
    name = asked.path_name(request, "metal")
    async with acting(request, "agents.undrain", name) as conn:
        if not await drains.undrain_metal(conn, name):
            raise asked.unknown("metal", name)
        found = await drains.metal(conn, name)
    return envelope.ok(_metal(asked.known(found, "metal", name)))


async def list_datacenters(request: web.Request) -> web.Response:
    """Answer datacenters, by name."""
    query = schema.query(asked.ListQuery, request.query)
    async with request.app[PARTS].db.read() as conn:
        found = await drains.datacenters(conn, limit=query.limit + 1, after=query.cursor)
    shown = found[: query.limit]
    more = len(found) > query.limit
    return envelope.cursor(
        [_datacenter(one) for one in shown], after=shown[-1].datacenter if more else None
    )


async def drain_datacenter(request: web.Request) -> web.Response:
    """Have nothing new land in a datacenter; stop what runs there when the time is up."""
    name = asked.path_name(request, "datacenter")
    body = schema.body(asked.DrainBody, await document(request))
    async with acting(request, "datacenters.drain", name, within_s=body.within_s) as conn:
        if not await drains.drain_datacenter(conn, name, body.within):
            raise asked.unknown("datacenter", name)
        found = await drains.datacenter(conn, name)
    return envelope.ok(_datacenter(asked.known(found, "datacenter", name)))


async def undrain_datacenter(request: web.Request) -> web.Response:
    """Let captures land in a datacenter again, but for metals drained on their own."""
    name = asked.path_name(request, "datacenter")
    async with acting(request, "datacenters.undrain", name) as conn:
        if not await drains.undrain_datacenter(conn, name):
            raise asked.unknown("datacenter", name)
        found = await drains.datacenter(conn, name)
    return envelope.ok(_datacenter(asked.known(found, "datacenter", name)))


def _metal(metal: MetalState) -> dict[str, Any]:
    return {
        "id": metal.metal_id,
        "datacenter": metal.datacenter,
        "address": metal.address,
        "epoch": metal.epoch,
        "registered_at": timestamp(metal.registered_at),
        "reported_at": timestamp(metal.reported_at),
        "draining": metal.draining or metal.datacenter_draining,
        "drained_itself": metal.draining,
        "drain_until": timestamp(metal.drain_until),
        "isolates": metal.isolates,
        "live_captures": metal.live_captures,
        "max_captures": metal.max_captures,
    }


def _datacenter(datacenter: DatacenterState) -> dict[str, Any]:
    return {
        "name": datacenter.datacenter,
        "metals": datacenter.metals,
        "draining_metals": datacenter.draining_metals,
        "draining": datacenter.draining,
        "drain_until": timestamp(datacenter.drain_until),
        "live_captures": datacenter.live_captures,
    }
