"""Identifiers of the product and the shapes they must have."""

from __future__ import annotations

import re
import uuid

ACCOUNT_ID = re.compile(r"^[0-9a-f]{32}$")
WORKER_ID = re.compile(r"^[0-9a-f]{32}$")
NAMESPACE_ID = re.compile(r"^[0-9a-f]{32}$")
ACTOR_ID = re.compile(r"^[0-9a-f]{64}$")
VERSION_PREFIX = re.compile(r"^[0-9a-f]{8}[0-9a-f-]{0,28}$")
METAL_ID = re.compile(r"^[a-z0-9][a-z0-9-]{0,62}$")
WORKER_NAME = re.compile(r"^[a-z0-9_][a-z0-9_-]{0,254}$")

LATEST = "latest"


def is_uuid(text: str) -> bool:
    """True for a UUID in its canonical lower-case form with hyphens."""
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False
