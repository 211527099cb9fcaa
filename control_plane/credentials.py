"""Tokens: how they look, how a leaked one is recognised, and what is stored of one.

A token is ``iso_acc_`` or ``iso_op_``, 43 letters and digits that hold 256 random bits, and six
that check the rest. The prefix and the checksum let a scanner of leaked secrets name one without
asking, and let a listener turn away what can't be one without asking the database.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import string
import zlib
from enum import StrEnum, unique

KEY_BYTES = 32
SECRET_BYTES = 32
LEAK_PATTERN = r"\biso_(?:acc|op)_[0-9A-Za-z]{49}\b"
"""For scanners of leaked secrets; ``kind_of`` then checks the checksum."""

_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_SECRET_CHARS = 43
_CHECK_CHARS = 6
_TOKEN = re.compile(r"(iso_(?:acc|op)_)([0-9A-Za-z]{43})([0-9A-Za-z]{6})")
# Those of before there were prefixes; none are made any more.
_FORMER = re.compile(r"isop_[A-Za-z0-9_-]{43}")


@unique
class TokenKind(StrEnum):
    """Whose token it is; the value is its prefix."""

    ACCOUNT = "iso_acc_"
    OPERATOR = "iso_op_"


def compose(kind: TokenKind, secret: bytes) -> str:
    """Build a token's text.

    Args:
        secret: ``SECRET_BYTES`` random bytes.
    """
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"a token holds {SECRET_BYTES} bytes")
    body = kind.value + _text(int.from_bytes(secret, "big"), _SECRET_CHARS)
    return body + _check(body)


def kind_of(token: str) -> TokenKind | None:
    """Return whose token this could be; None when it can't be one."""
    found = _TOKEN.fullmatch(token)
    if found is not None:
        intact = hmac.compare_digest(_check(found[1] + found[2]), found[3])
        return TokenKind(found[1]) if intact else None
    return TokenKind.ACCOUNT if _FORMER.fullmatch(token) else None


def plain_hash(token: str) -> bytes:
    """Return the SHA-256 of a token: 256 random bits need no salt and no slow hash."""
    return hashlib.sha256(token.encode()).digest()


def keyed(key: bytes, plain: bytes) -> bytes:
    """Return what is stored of a token.

    With a key that is not in the database, who can write there still can't make a token. Made from
    the plain hash, so that what was stored before there was a key can be brought up to date.
    """
    return hmac.digest(key, plain, "sha256")


def fingerprint(key: bytes) -> str:
    """Name a key without telling it."""
    return hmac.digest(key, b"isoprof token key", "sha256").hex()[:32]


def _check(body: str) -> str:
    return _text(zlib.crc32(body.encode()), _CHECK_CHARS)


def _text(number: int, chars: int) -> str:
    text = ""
    for _ in range(chars):
        number, digit = divmod(number, len(_DIGITS))
        text = _DIGITS[digit] + text
    return text
