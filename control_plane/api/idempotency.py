"""The Idempotency-Key header: what makes a request safe to send again."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from contract.faults import FieldError
from control_plane.api import schema
from control_plane.store.idempotency import Key

if TYPE_CHECKING:
    from aiohttp import web

HEADER = "Idempotency-Key"
# On the answer to a repeated request.
REPLAYED = "Idempotent-Replayed"
MAX_CHARS = 255
_SHAPE = re.compile(rf"[!-~]{{1,{MAX_CHARS}}}")


def key(request: web.Request, document: Any) -> Key | None:
    """Read the key a request carries; None when it has none.

    Bodies are the same when they say the same: spaces and the order of keys do not count.

    Args:
        document: the body, parsed.

    Raises:
        Fault: request_invalid, for a key of another shape or more than one.
    """
    given = request.headers.getall(HEADER, [])
    if not given:
        return None
    if len(given) > 1 or not _SHAPE.fullmatch(given[0]):
        message = f"Must be one key of 1 to {MAX_CHARS} visible ASCII characters without spaces."
        raise schema.invalid([FieldError(pointer=f"header/{HEADER}", message=message)])
    same = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return Key(text=given[0], body=hashlib.sha256(same.encode()).digest())
