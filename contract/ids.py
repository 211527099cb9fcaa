"""Identifiers of the product and the shapes they must have."""

from __future__ import annotations

import hashlib
import hmac
import re
import uuid

ACCOUNT_ID = re.compile(r"^[0-9a-f]{32}$")
WORKER_ID = re.compile(r"^[0-9a-f]{32}$")
NAMESPACE_ID = re.compile(r"^[0-9a-f]{32}$")
ACTOR_ID = re.compile(r"^[0-9a-f]{64}$")
VERSION_PREFIX = re.compile(r"^[0-9a-f]{8}[0-9a-f-]{0,28}$")
METAL_ID = re.compile(r"^[a-z0-9][a-z0-9-]{0,62}$")
WORKER_NAME = re.compile(r"^[a-z0-9_][a-z0-9_-]{0,254}$")
# What an operator gave a runtime as a namespace's unique key.
UNIQUE_KEY = re.compile(r"^[^\x00-\x1f\x7f]{1,255}$")

LATEST = "latest"


def is_uuid(text: str) -> bool:
    """True for a UUID in its canonical lower-case form with hyphens."""
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def actor_id_of(unique_key: str, name: str) -> str:
    """Return the id the runtime gives the Durable Object of a name.

    Args:
        unique_key: what the runtime knows the object's namespace by.
        name: as a Worker passes it to ``idFromName``.

    Returns:
        64 hex digits: 16 bytes of HMAC-SHA-256 of the name, then 16 bytes of the HMAC of those.

    Source: checked against workerd, which for the key ``abc123`` and the name ``foo`` makes
        b9fd1d28068e106b9e9dd2c5c48ac1a97e5467b0dad5f083d243cf0249e30d67.
    """
    key = hashlib.sha256(unique_key.encode()).digest()
    first = hmac.digest(key, name.encode(), "sha256")[:16]
    return (first + hmac.digest(key, first, "sha256")[:16]).hex()
