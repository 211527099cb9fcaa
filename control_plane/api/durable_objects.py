"""Durable Object namespaces, and the objects seen in them lately."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field

from contract import ids
from contract.faults import Fault, Reason
from control_plane.api import auth, envelope, schema
from control_plane.api.parts import PARTS
from control_plane.store import workers

if TYPE_CHECKING:
    from aiohttp import web


class ObjectsQuery(BaseModel):
    """Paging by cursor. Unknown parameters are let by, as of all published lists."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    limit: Annotated[int, Field(ge=10, le=10_000)] = 1_000
    # The last object of the page before.
    cursor: Annotated[str, Field(pattern=rf"^(?:{ids.ACTOR_ID.pattern.strip('^$')})?$")] = ""


async def list_namespaces(request: web.Request) -> web.Response:
    """Answer one page of the account's namespaces."""
    account_id = await auth.account(request)
    asked = schema.query(schema.PageQuery, request.query)
    async with request.app[PARTS].db.read() as conn:
        found, total = await workers.namespaces_page(
            conn, account_id, offset=asked.offset, limit=asked.per_page
        )
    views = [
        {
            "id": one.namespace_id,
            "name": f"{script}_{one.class_name}",
            "class": one.class_name,
            "script": script,
            # Agents do not tell which storage a class has.
            "use_sqlite": None,
        }
        for one, script in found
    ]
    return envelope.page(views, page=asked.page, per_page=asked.per_page, total=total)


async def list_objects(request: web.Request) -> web.Response:
    """Answer the objects of a namespace that ran lately, by id."""
    account_id = await auth.account(request)
    asked = schema.query(ObjectsQuery, request.query)
    namespace_id = request.match_info["namespace_id"]
    async with request.app[PARTS].db.read() as conn:
        if await workers.namespace(conn, account_id, namespace_id) is None:
            raise Fault(Reason.RECORD_UNKNOWN, "This account has no such Durable Object namespace.")
        found = await workers.objects(
            conn, account_id, namespace_id, limit=asked.limit + 1, after=asked.cursor
        )
    shown = found[: asked.limit]
    # Whether one has stored data only its storage knows.
    views = [{"id": actor_id, "hasStoredData": None} for actor_id in shown]
    return envelope.cursor(views, after=shown[-1] if len(found) > len(shown) else None)
