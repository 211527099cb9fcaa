"""The success envelope and the two ways of paging."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def ok(
    result: Any,
    *,
    status: int = 200,
    info: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    """Wrap a result; ``info`` becomes ``result_info``."""
    body: dict[str, Any] = {"success": True, "errors": [], "messages": [], "result": result}
    if info is not None:
        body["result_info"] = dict(info)
    return web.Response(
        status=status,
        body=json.dumps(body).encode(),
        content_type="application/json",
        headers=headers,
    )


def page(results: Sequence[Any], *, page: int, per_page: int, total: int) -> web.Response:
    """Answer one page; past the end it is empty, which is what ends a published client's walk."""
    info = page_info(page=page, per_page=per_page, count=len(results), total=total)
    return ok(list(results), info=info)


def page_info(*, page: int, per_page: int, count: int, total: int) -> dict[str, int]:
    """Build what a list by pages says of itself."""
    return {
        "page": page,
        "per_page": per_page,
        "count": count,
        "total_count": total,
        "total_pages": -(-total // per_page),
    }


def cursor(results: Sequence[Any], *, after: str | None) -> web.Response:
    """Answer one stretch of a list; an empty cursor is the end."""
    text = after or ""
    return ok(
        list(results),
        info={"count": len(results), "cursor": text, "cursors": {"after": text}},
    )
