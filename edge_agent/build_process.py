"""The process that builds one profile: an order on stdin, the profile on stdout, then it ends."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, BinaryIO

from contract.faults import Reason
from contract.messages import ProfileType
from edge_agent.builder import BuildOrder, Built, parse_header
from pprof import build_cpu, build_heap, codec, comments, merge
from pprof.check import ProfileInvalid, ProfileTooLarge

if TYPE_CHECKING:
    from pprof.model import BuiltProfile

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Answer one order; how it went is in the answer, not in the status."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    line = sys.stdin.buffer.readline()
    if not line or os.getppid() != parent:
        return
    # One profile and the end: the collector would walk a growing tree and find nothing to free.
    gc.disable()
    answer, data = _answered(line, sys.stdin.buffer)
    sys.stdout.buffer.write(json.dumps(answer | {"size_bytes": len(data)}).encode() + b"\n")
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    # The answer is out: tearing down millions of objects would only keep the core busy.
    os._exit(0)


def _answered(line: bytes, rest: BinaryIO) -> tuple[dict[str, Any], bytes]:
    try:
        built = build(_order(line, rest))
    except ProfileTooLarge as error:
        return _refusal(Reason.PROFILE_TOO_LARGE, str(error)), b""
    except ProfileInvalid as error:
        return _refusal(Reason.PROFILE_INVALID, str(error)), b""
    except MemoryError:
        return _refusal(Reason.PROFILE_TOO_LARGE, "there is not enough memory to build it"), b""
    except Exception as error:  # noqa: BLE001 - the other side of a pipe must hear of it
        return _refusal(Reason.INTERNAL, f"{type(error).__name__}: {error}"), b""
    return {"samples": built.samples, "truncated": built.truncated}, built.data


def build(order: BuildOrder) -> Built:
    """The finished profile of an order. Pure and slow.

    Raises:
        ProfileInvalid: the slices are no profiles.
        ProfileTooLarge: a bound was passed.
    """
    match order.profile_type:
        case ProfileType.CPU:
            built = _cpu(order)
        case ProfileType.HEAP:
            built = [
                build_heap.profile(
                    order.slices[0],
                    order.context,
                    order.started_at_ns,
                    order.window_ns,
                    order.intervals[0],
                    order.backing_store_bytes,
                )
            ]
    whole = built[0].profile if len(built) == 1 else merge.merge([one.profile for one in built])
    return Built(
        data=codec.encode(whole),
        samples=sum(one.samples for one in built),
        truncated=comments.truncations(*(one.truncated for one in built)),
    )


def _refusal(reason: Reason, message: str) -> dict[str, Any]:
    return {"reason": reason.value, "message": message[:1000]}


def _cpu(order: BuildOrder) -> list[BuiltProfile]:
    """One profile per sampling interval used: the interval decides what counts as idle."""
    grouped: dict[int, list[bytes]] = {}
    for data, interval_us in zip(order.slices, order.intervals, strict=True):
        grouped.setdefault(interval_us, []).append(data)
    return [
        build_cpu.profile(
            slices,
            # Gaps are summed when profiles are merged: they are told once.
            order.context if index == 0 else _without_gaps(order.context),
            order.started_at_ns,
            order.window_ns,
            interval_us,
        )
        for index, (interval_us, slices) in enumerate(grouped.items())
    ]


def _without_gaps(context: comments.Context) -> comments.Context:
    return comments.Context(**(vars(context) | {"gaps_ns": 0}))


def _order(line: bytes, rest: BinaryIO) -> BuildOrder:
    told, sizes = parse_header(line)
    slices = tuple(rest.read(size) for size in sizes)
    if [len(data) for data in slices] != list(sizes):
        raise ProfileInvalid("the slices were cut off on their way")
    return BuildOrder(
        profile_type=ProfileType(told["profile_type"]),
        slices=slices,
        intervals=tuple(told["intervals"]),
        started_at_ns=told["started_at_ns"],
        window_ns=told["window_ns"],
        backing_store_bytes=told["backing_store_bytes"],
        context=comments.Context(**told["context"]),
    )


if __name__ == "__main__":
    main()
