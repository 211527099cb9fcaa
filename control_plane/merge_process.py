"""The process that merges the profiles of one session: parts on stdin, their sum on stdout.

Reading and merging hold the interpreter's lock for seconds: in a thread they would stop the event
loop of everybody else's requests. It knows nothing but profiles.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, BinaryIO

from pprof import codec
from pprof.check import ProfileInvalid, ProfileTooLarge
from pprof.gather import Gathered, Gathering

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The finest first: a whole too large loses them in this order.
LABELS = ("isolate", "metal", "datacenter")
_PR_SET_PDEATHSIG = 1
# Requests go first on a machine that is busy.
_NICER = 5


def header(parts: Sequence[tuple[int, Mapping[str, str]]], comments: Sequence[str]) -> bytes:
    """The line before the parts' bytes.

    Args:
        parts: size in bytes and labels of each, in order.
        comments: said beside those of the parts.
    """
    told = {"parts": [[size, dict(labels)] for size, labels in parts], "comments": list(comments)}
    return json.dumps(told).encode() + b"\n"


def merged(line: bytes, rest: BinaryIO) -> Gathered:
    """Merge what a header announces.

    Raises:
        ProfileInvalid: a part is no profile, or they count different things.
        ProfileTooLarge: no way was found to keep the bounds.
        EOFError: the parts broke off.
    """
    told = json.loads(line)
    gathering = Gathering(LABELS)
    for size, labels in told["parts"]:
        data = rest.read(size)
        if len(data) < size:
            raise EOFError
        gathering.add(codec.decode(data), labels)
    return gathering.finish(comments=tuple(told["comments"]))


def main() -> None:
    """Answer once; how it went is in the answer, not in the status."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.nice(_NICER)
    line = sys.stdin.buffer.readline()
    if not line or os.getppid() != parent:
        return
    answer, data = _answered(line, sys.stdin.buffer)
    sys.stdout.buffer.write(json.dumps(answer | {"size_bytes": len(data)}).encode() + b"\n")
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    # The answer is out: tearing down millions of objects would only keep the core busy.
    os._exit(0)


def _answered(line: bytes, rest: BinaryIO) -> tuple[dict[str, Any], bytes]:
    try:
        found = merged(line, rest)
    except ProfileInvalid as error:
        return {"refused": str(error), "large": isinstance(error, ProfileTooLarge)}, b""
    except MemoryError:
        return {"refused": "there is not enough memory", "large": True}, b""
    told = {"window_ns": found.window_ns, "truncated": found.truncated, "dropped": found.dropped}
    return told, found.data


if __name__ == "__main__":
    main()
