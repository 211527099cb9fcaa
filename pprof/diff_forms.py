"""A comparison as JSON: the table, and the flame graph with both sides."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from pprof import comments
from pprof.calltree import CUT_OFF
from pprof.flame import CUT_FRAME, VERSION, columns, sample_name
from pprof.frames import KINDS

if TYPE_CHECKING:
    from pprof.diff import Diff
    from pprof.frames import Frame
    from pprof.model import Profile


def table(found: Diff) -> dict[str, object]:
    """The rows with both totals and how they were made comparable."""
    return {
        "sample_type": found.measure.type,
        "unit": found.measure.unit,
        "normalize": found.normalize.value,
        "scale": found.scale,
        "base": asdict(found.base),
        "new": asdict(found.new),
        "rows": [asdict(row) for row in found.rows],
    }


def flamegraph(found: Diff, base: Profile, new: Profile, max_nodes: int) -> dict[str, object]:
    """The shape of ``docs/flamegraph-format.md`` with both sides; numbers as they were measured."""
    strings: dict[str, int] = {"": 0}
    numbers: dict[int, int] = {}
    at = [numbers.setdefault(number, len(numbers)) for number in found.tree.at]
    shown: list[Frame] = []
    base_lines: list[int] = []
    statuses: list[str] = []
    for number in numbers:
        before, after = (CUT_FRAME, CUT_FRAME) if number == CUT_OFF else found.pairs[number]
        shown.append(after or before or CUT_FRAME)
        base_lines.append(before.line if before else 0)
        statuses.append("same" if number == CUT_OFF else found.statuses[number].value)
    functions: dict[str, object] = {
        **columns(shown, strings),
        "base_line": base_lines,
        "status": statuses,
    }
    tree = found.tree
    return {
        "v": VERSION,
        "diff": {"normalize": found.normalize.value, "scale": found.scale},
        "type": found.measure.type,
        "unit": found.measure.unit,
        "samples_type": sample_name(new, found.measure),
        "total": found.new.total,
        "total_samples": found.new.samples,
        "base_total": found.base.total,
        "base_total_samples": found.base.samples,
        "period": new.period,
        "time_ns": new.time_ns,
        "duration_ns": new.duration_ns,
        "base_time_ns": base.time_ns,
        "base_duration_ns": base.duration_ns,
        "about": _about(new),
        "base_about": _about(base),
        "kinds": KINDS,
        "functions": functions,
        "nodes": {
            "level": tree.levels,
            "fn": at,
            "self": tree.columns[0],
            "samples": tree.columns[1],
            "base_self": tree.columns[2],
            "base_samples": tree.columns[3],
        },
        "cut": {
            "nodes": tree.cut_nodes,
            "value": tree.cut[0],
            "samples": tree.cut[1],
            "base_value": tree.cut[2],
            "base_samples": tree.cut[3],
            "max_nodes": max_nodes,
        }
        if tree.cut_nodes
        else None,
        "strings": list(strings),
    }


def _about(profile: Profile) -> dict[str, list[str]]:
    return {key: list(all_) for key, all_ in comments.read(profile.comments).items()}
