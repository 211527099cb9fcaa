"""What gRPC's core writes to descriptor 2 by itself, made into events like all others.

It alone knows why a server turned a connection away: a handshake that fails reaches no handler.
"""

from __future__ import annotations

import faulthandler
import io
import os
import re
import sys
import threading
import time

import structlog

# Of one cause; the next line says how many were left out.
_EVERY_S = 1.0
_LINE = re.compile(r"(?P<level>[IWEF])\d{4} [\d:.]+ +\d+ (?P<source>\S+)\] (?P<text>.*)")
_HANDSHAKE = "Handshake failed with error "
_CAUSES = (
    ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "peer_shows_no_certificate"),
    ("CERTIFICATE_VERIFY_FAILED", "peer_untrusted"),
    ("WRONG_VERSION_NUMBER", "peer_speaks_plaintext"),
    ("HTTP_REQUEST", "peer_speaks_plaintext"),
)

log = structlog.get_logger(__name__)

_diverted: tuple[int, int] | None = None


def divert() -> None:
    """Give gRPC's core a pipe for descriptor 2, and everything of Python the descriptor that was.

    Before gRPC is imported: its core reads how much it should say, and may say it, right then.
    """
    global _diverted
    if _diverted is not None:
        return
    os.environ["GRPC_VERBOSITY"] = "INFO"
    real = os.dup(2)
    sys.stderr = io.TextIOWrapper(
        os.fdopen(real, "wb", closefd=False, buffering=0),
        encoding="utf-8",
        errors="backslashreplace",
        write_through=True,
    )
    # A crash is told there as well, by Python: what the pipe still holds by then is lost.
    faulthandler.enable(sys.stderr)
    out, into = os.pipe()
    os.dup2(into, 2)
    os.close(into)
    _diverted = out, real


def follow() -> None:
    """Log what the core says, from now on and until the process ends."""
    if _diverted is not None:
        threading.Thread(target=_follow, args=_diverted, name="core-log", daemon=True).start()


def _follow(out: int, real: int) -> None:
    said: dict[tuple[str, str], tuple[float, int]] = {}
    with os.fdopen(out, "rb") as lines:
        for raw in lines:
            line = raw.decode("utf-8", "replace").rstrip()
            if _LINE.fullmatch(line) is None:
                os.write(real, raw)
            elif (told := told_by(line)) is not None:
                event, fields = told
                before_s, left_out = said.get((event, str(fields)), (-_EVERY_S, 0))
                now_s = time.monotonic()
                if now_s - before_s < _EVERY_S:
                    said[event, str(fields)] = before_s, left_out + 1
                    continue
                if len(said) > 100:
                    said.clear()
                said[event, str(fields)] = now_s, 0
                log.warning(event, **fields, left_out=left_out)


def told_by(line: str) -> tuple[str, dict[str, str]] | None:
    """Return the event, and its fields, that a line of the core is worth; None for chatter."""
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    text = found["text"]
    if text.startswith(_HANDSHAKE):
        cause = next((name for words, name in _CAUSES if words in text), "other")
        return "handshake_failed", {"cause": cause, "detail": text.rpartition(":")[2].strip()}
    if found["level"] == "I" or "is not suitable for production" in text:
        return None
    return "grpc_core", {"source": found["source"], "detail": text}
