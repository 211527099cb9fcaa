"""``.cpuprofile`` of Chrome DevTools, in and out.

A file holds times in order, a pprof sums: what is written has each stack's samples side by side.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pprof import build_cpu, comments
from pprof.check import DEFAULT_BOUNDS, Bounds, ProfileInvalid
from pprof.frames import Frames
from pprof.v8 import parse, whole

if TYPE_CHECKING:
    from pprof.frames import Frame
    from pprof.model import Profile, Sample
    from pprof.v8 import JsonObject

MOST_SAMPLES = 1_000_000
"""Samples written; a profile of more has one pair of samples per stack."""
_USUAL_INTERVAL_US = 1_000
_KEPT = ("samples", "idle_ns", "error_percent", "confidence", "truncated", "repaired_strings")
_US_OF = {"nanoseconds": 1_000, "microseconds": 1, "milliseconds": -1_000, "seconds": -1_000_000}
_ROOT, _IDLE = 1, 2


def read(data: bytes, bounds: Bounds = DEFAULT_BOUNDS) -> Profile:
    """A ``.cpuprofile`` as a profile, billed as a capture of ours would be.

    The first delta is never billed, what runs backwards is put in order, idle time is told in a
    comment. The interval, which the file does not tell, is the median of its deltas.

    Raises:
        ProfileInvalid: no ``.cpuprofile``.
        ProfileTooLarge: a bound was passed.
    """
    nothing = comments.Context(
        isoprof="",
        session="",
        capture=0,
        worker="",
        version="",
        datacenter="",
        metal="",
        isolate="",
    )
    interval_us, window_us = _times(data, bounds)
    built = build_cpu.profile([data], nothing, 0, window_us * 1000, interval_us, bounds)
    said = comments.read(built.profile.comments)
    told = [f"{key}={value}" for key in _KEPT for value in said.get(key, ())]
    note = f"note=read from a .cpuprofile; {interval_us} us is the median of its deltas"
    return replace(built.profile, comments=(*told, note))


def _times(data: bytes, bounds: Bounds) -> tuple[int, int]:
    def shrink(raw: JsonObject) -> object:
        return None if "callFrame" in raw or "functionName" in raw or "ticks" in raw else raw

    found = parse(data, shrink, bounds)
    deltas = found.get("timeDeltas")
    positive = sorted(
        delta
        for delta in (deltas if isinstance(deltas, list) else [])[1:]
        if type(delta) is int and delta > 0
    )
    interval_us = int(statistics.median(positive)) if positive else _USUAL_INTERVAL_US
    window_us = whole(found.get("endTime", 0), "endTime") - whole(
        found.get("startTime", 0), "startTime"
    )
    # A longer one than that, or a backward one, is no window anybody sampled.
    return max(1, interval_us), max(0, min(window_us, 2**50))


def written(profile: Profile) -> dict[str, Any]:
    """A checked profile of CPU time as DevTools reads it.

    Each stack has one sample more than it counts, the first of no length: some readers bill the
    time before a sample, some the time after it, and so both come to the same sums. ``hitCount`` is
    exact.

    Raises:
        ProfileInvalid: the profile holds no time.
    """
    index = _time_index(profile)
    units = [kind.unit for kind in profile.sample_types]
    count_index = units.index("count") if "count" in units else None
    hits_of = [
        sample.values[count_index] if count_index is not None else 1 for sample in profile.samples
    ]
    nodes = _Nodes(profile)
    is_short = sum(hits_of) <= MOST_SAMPLES
    samples, deltas_us = [], []
    passed_ns = told_us = 0
    per_us = _US_OF[profile.sample_types[index].unit]
    for sample, hits in zip(profile.samples, hits_of, strict=True):
        value = sample.values[index]
        value_ns = value * 1000 // per_us if per_us > 0 else value * -per_us * 1000
        node = nodes.hit(sample, hits)
        pieces = max(1, hits) if is_short else 1
        for piece in range(pieces + 1):
            until_us = (passed_ns + value_ns * piece // pieces) // 1000
            samples.append(node)
            deltas_us.append(until_us - told_us)
            told_us = until_us
        passed_ns += value_ns
    start_us = profile.time_ns // 1000
    return {
        "nodes": nodes.list,
        "startTime": start_us,
        "endTime": start_us + max(told_us, profile.duration_ns // 1000),
        "samples": [*samples, _IDLE],
        "timeDeltas": [*deltas_us, 0],
    }


def _time_index(profile: Profile) -> int:
    timed = [at for at, kind in enumerate(profile.sample_types) if kind.unit in _US_OF]
    if not timed:
        held = ", ".join(f"{kind.type} in {kind.unit}" for kind in profile.sample_types)
        raise ProfileInvalid(f"a .cpuprofile holds CPU time, this profile only {held}")
    named = [at for at in timed if profile.sample_types[at].type == profile.default_sample_type]
    return (named or timed[-1:])[0]


class _Nodes:
    """The tree as a list of nodes that name their children."""

    def __init__(self, profile: Profile) -> None:
        self.list: list[dict[str, Any]] = []
        self._frames = Frames(profile)
        self._ids: dict[tuple[int, int], int] = {}
        self._scripts: dict[str, str] = {}
        self._lines = {place.id: place.lines for place in profile.locations}
        self._add(None, "(root)", "", -1)
        self._add(_ROOT, "(idle)", "", -1)

    def hit(self, sample: Sample, hits: int) -> int:
        """Count hits of a stack's leaf; its node's id."""
        node = _ROOT
        for number in reversed(self._frames.stack(sample.location_ids)):
            frame = self._frames.list[number]
            known = self._ids.get((node, number))
            if known is None:
                known = self._add(node, frame.name, frame.file, frame.line - 1, _column(frame))
                self._ids[node, number] = known
            node = known
        leaf = self.list[node - 1]
        leaf["hitCount"] += hits
        lines = self._lines[sample.location_ids[0]] if sample.location_ids else ()
        if hits and lines and lines[0].line:
            leaf["positionTicks"].append({"line": lines[0].line, "ticks": hits})
        return node

    def _add(self, parent: int | None, name: str, url: str, line: int, column: int = -1) -> int:
        id_ = len(self.list) + 1
        script = self._scripts.setdefault(url, str(len(self._scripts)))
        self.list.append(
            {
                "id": id_,
                "callFrame": {
                    "functionName": name,
                    "scriptId": script,
                    "url": url,
                    "lineNumber": line,
                    "columnNumber": column if line >= 0 else -1,
                },
                "hitCount": 0,
                "children": [],
                "positionTicks": [],
            }
        )
        if parent is not None:
            self.list[parent - 1]["children"].append(id_)
        return id_


def _column(frame: Frame) -> int:
    """The 0-based column, known when the frame is where the running code has it."""
    here, _, column = frame.generated.rpartition(":")
    known = here == f"{frame.file}:{frame.line}" and column.isascii() and column.isdecimal()
    return int(column) - 1 if known else 0
