"""The names certificates carry. A name says which half its holder is, and for an agent which metal.

They are DNS names, because that is what a gRPC client can check of the server it dials; a server
reads the same name of its client. The domain is reserved for private use: no public authority
issues names in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from contract.ids import METAL_ID

if TYPE_CHECKING:
    from collections.abc import Iterable

DOMAIN = "isoprof.internal"
CONTROL_PLANE = f"control-plane.{DOMAIN}"
_METAL = f".metal.{DOMAIN}"


def of_metal(metal_id: str) -> str:
    """Name the agent of a metal."""
    return f"{metal_id}{_METAL}"


def holder(names: Iterable[str]) -> str | None:
    """Return who holds a certificate with these DNS names.

    Names outside of our domain say nothing here. Several inside of it are nobody: what may be two
    would be taken for whichever of them suits it.
    """
    ours = {name for name in names if name == DOMAIN or name.endswith(f".{DOMAIN}")}
    return ours.pop() if len(ours) == 1 else None


def metal_of(name: str | None) -> str | None:
    """Return the metal whose agent has this name; None for any other name, a wildcard included."""
    if name is None or not name.endswith(_METAL):
        return None
    metal_id = name.removesuffix(_METAL)
    return metal_id if METAL_ID.fullmatch(metal_id) else None
