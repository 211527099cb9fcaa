"""Two sessions' profiles compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from contract.faults import FieldError
from control_plane.api import auth, profiles, renderings, schema
from control_plane.api.parts import PARTS
from pprof import codec, formats
from pprof.check import ProfileInvalid

if TYPE_CHECKING:
    from collections.abc import Callable


async def compare(request: web.Request) -> web.Response:
    """Answer what changed from the base session's profile to a session's."""
    account_id = await auth.account(request)
    asked = schema.diff_query(request)
    session = await profiles.ready(request, account_id, schema.session_id(request))
    base = await profiles.ready(request, account_id, schema.session_id(request, "base_id"))
    parts = request.app[PARTS]
    stored = await profiles.whole(parts, session)
    stored_base = await profiles.whole(parts, base)
    form = formats.DIFF_FORMATS[asked.format]
    tag = (
        f"{stored.sha256}-{stored_base.sha256}-diff-{asked.format}-{form.version}-"
        f"{asked.normalize}-{asked.sample_type}-{asked.max_nodes}"
    )
    options = formats.Options(
        sample_type=asked.sample_type,
        max_nodes=asked.max_nodes,
        normalize=asked.normalize,
        title=f"{profiles.title(session)}, compared with {profiles.title(base)}",
    )
    headers = profiles.derived(tag, profiles.file_name(session, stored, form.ending))
    if renderings.has_it(request, tag):
        return web.Response(status=304, headers=headers)

    async def make() -> Callable[[], bytes]:
        new_data = await profiles.bytes_of(parts, stored)
        base_data = await profiles.bytes_of(parts, stored_base)
        return lambda: formats.compare(
            codec.decode(base_data), codec.decode(new_data), asked.format, options
        )

    try:
        data = await request.app[renderings.RENDERINGS].made(tag, make)
    except ProfileInvalid as error:
        kinds = session.profile_type, base.profile_type
        pointer = "path/base_id" if kinds[0] is not kinds[1] else "query/sample_type"
        raise schema.invalid([FieldError(pointer=pointer, message=f"{error}.")]) from None
    return await renderings.answer(request, data, form.content_type, headers)
