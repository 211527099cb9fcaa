"""A profile told in Markdown: what it is, where the cost lies, and how far to trust it."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pprof import comments
from pprof.frames import Frames, Kind
from pprof.measure import measure
from pprof.top import shown, top

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pprof.diff import Change, Diff
    from pprof.frames import Frame
    from pprof.measure import Measure
    from pprof.model import Profile
    from pprof.top import Top

ROWS = 25
STACKS = 10
DEEPEST = 12
"""Frames of a stack that are shown; of more, the middle is left out and counted."""
_WHAT = {
    "cpu": "CPU time",
    "alloc_space": "bytes allocated in the window, freed since or not",
    "inuse_space": "bytes that stayed",
}


def markdown(profile: Profile, title: str, sample_type: str = "") -> str:
    """A checked profile for people and for programs that read text.

    Raises:
        ProfileInvalid: the profile has no such sample type.
    """
    table = top(profile, sample_type)
    chosen = measure(profile, sample_type)
    return "\n".join(
        [
            f"# {text(title)}",
            "",
            *_facts(profile, table),
            "",
            *_functions(table),
            "",
            *_stacks(profile, chosen, table.total),
            "",
            *_caveats(profile, table),
            "",
        ]
    )


def compared(found: Diff, title: str) -> str:
    """A comparison for the same readers."""
    unit = found.measure.unit
    rows = [row for row in found.rows if row.self_change or row.total_change]
    sides = (("before", found.base), ("after", found.new))
    how = {
        "total": "scaled to the same total, so changes are shifts of share",
        "window": "scaled to the same length of window",
        "none": "as measured, not scaled",
    }[found.normalize.value]
    told = [
        f"# {text(title)}",
        "",
        f"- compared: {found.measure.type}, {how} (before x {found.scale:.4g})",
        *(
            f"- {name}: {shown(side.total, unit)} in a window of "
            f"{shown(side.duration_ns, 'nanoseconds')}"
            + (f", {side.samples} samples" if side.samples else "")
            for name, side in sides
        ),
        f"- functions: {_counted(found)}",
        "",
        "## Changes",
        "",
    ]
    if not rows:
        return "\n".join([*told, "Nothing changed.", ""])
    told += [
        "| self | self before | self after | total | what | function | source |",
        "|---:|---:|---:|---:|---|---|---|",
        *(_change(row, unit) for row in rows[:ROWS]),
    ]
    if len(rows) > ROWS:
        told.append(f"\n{len(rows) - ROWS} smaller changes are left out.")
    told += [
        "",
        "Values before and after are as measured; the changes are after scaling. *noise*: sampling "
        "alone explains it (within two deviations); do not argue from it.",
        "",
    ]
    return "\n".join(told)


def _counted(found: Diff) -> str:
    sums = Counter(row.status.value for row in found.rows)
    return ", ".join(f"{count} {name}" for name, count in sorted(sums.items())) or "none"


def _change(row: Change, unit: str) -> str:
    what = row.status.value + (" (noise)" if row.self_noise and row.total_noise else "")
    line = row.line or row.base_line
    return _row(
        signed(row.self_change, unit),
        shown(row.base_self, unit),
        shown(row.self_value, unit),
        signed(row.total_change, unit),
        what,
        code(row.name),
        code(f"{row.file}:{line}" if row.file and line else row.file),
    )


def signed(value: int, unit: str) -> str:
    """A change for people, with its sign."""
    return ("+" if value > 0 else "") + shown(value, unit)


def _facts(profile: Profile, table: Top) -> list[str]:
    said = {key: ", ".join(values) for key, values in comments.read(profile.comments).items()}
    window = shown(profile.duration_ns, "nanoseconds")
    if profile.time_ns:
        began = datetime.fromtimestamp(profile.time_ns / 1e9, UTC)
        window += f" from {began:%Y-%m-%d %H:%M:%S} UTC"
    facts = [
        ("measured", f"{table.sample_type}: {_WHAT.get(table.sample_type, table.unit)}"),
        ("total", shown(table.total, table.unit)),
        ("window", window),
        *(
            (name, said.get(key, ""))
            for name, key in (
                ("samples", "samples"),
                ("worker", "worker"),
                ("version", "version"),
                ("datacenter", "datacenter"),
                ("metal", "metal"),
                ("isolate", "isolate"),
                ("session", "session"),
            )
        ),
    ]
    if "cpu" in table.sample_type and profile.duration_ns:
        facts.insert(2, ("busy", f"{100 * table.total / profile.duration_ns:.1f} % of the window"))
    return [f"- {name}: {text(value)}" for name, value in facts if value]


def _functions(table: Top) -> list[str]:
    rows = table.rows[:ROWS]
    if not rows:
        return ["## Functions", "", "Nothing was sampled."]
    told = [
        "## Functions, by what they cost themselves",
        "",
        "Percent is of the whole profile. Total is with everything a function called, once.",
        "",
        "| self | self % | total | total % | samples | function | source |",
        "|---:|---:|---:|---:|---:|---|---|",
    ]
    told += [
        _row(
            shown(row.self_value, table.unit),
            f"{row.self_percent:.1f}",
            shown(row.total_value, table.unit),
            f"{row.total_percent:.1f}",
            str(row.samples),
            code(row.name),
            code(row.place),
        )
        for row in rows
    ]
    left_out = table.rows[ROWS:]
    if left_out:
        rest = sum(row.self_value for row in left_out)
        told += ["", f"{len(left_out)} more functions cost {shown(rest, table.unit)} themselves."]
    return told


def _stacks(profile: Profile, chosen: Measure, total: int) -> list[str]:
    frames = Frames(profile)
    sums: Counter[tuple[int, ...]] = Counter()
    for sample in profile.samples:
        sums[tuple(frames.stack(sample.location_ids))] += chosen.value(sample)
    hottest = sorted(sums.items(), key=lambda one: (-one[1], one[0]))[:STACKS]
    told = ["## Hottest stacks, callers first"]
    for stack, value in hottest:
        if not value:
            continue
        share = f"{100 * value / total:.1f} %" if total else ""
        told += ["", f"{shown(value, chosen.unit)}, {share}", ""]
        told += [
            f"{'  ' * depth}- {line}"
            for depth, line in enumerate(_path([frames.list[at] for at in reversed(stack)]))
        ]
    return told if len(told) > 1 else []


def _path(stack: Sequence[Frame]) -> list[str]:
    lines = [code(frame.name) + (f" {code(frame.place)}" if frame.place else "") for frame in stack]
    if len(lines) <= DEEPEST:
        return lines
    half = DEEPEST // 2
    return [*lines[:half], f"({len(lines) - DEEPEST} more frames)", *lines[-half:]]


def _caveats(profile: Profile, table: Top) -> list[str]:
    said = {key: ", ".join(values) for key, values in comments.read(profile.comments).items()}
    told: list[str] = []
    if "error_percent" in said:
        line = f"{said.get('samples', '?')} samples: times are right to about "
        line += f"{said['error_percent']} %."
        if "confidence" in said:
            line += f" That is {said['confidence']}: capture longer, or send more traffic."
        told.append(line)
    told += [
        f"Idle for {shown(int(idle), 'nanoseconds')}; idle time is in no number above."
        for idle in said.get("idle_ns", "").split(", ")
        if idle.isdecimal()
    ]
    meta = _share(profile, table, {Kind.PROGRAM, Kind.NATIVE, Kind.GC})
    told += [f"{name}: {share:.1f} % of the profile." for name, share in meta]
    told += [
        f"{name}: {said[key]}."
        for name, key in (
            ("Cut off", "truncated"),
            ("Filtered; what was taken out is (filtered)", "filtered"),
            ("Not covered", "not_covered"),
            ("Objects", "alloc_objects"),
            ("Note", "note"),
        )
        if key in said
    ]
    return ["## How far to trust it", "", *(f"- {text(line)}" for line in told)] if told else []


def _share(profile: Profile, table: Top, kinds: set[Kind]) -> Iterable[tuple[str, float]]:
    """Parts of the whole that are no JavaScript."""
    names = {
        Kind.PROGRAM: "(program), native work outside JavaScript",
        Kind.NATIVE: "Functions of the runtime, native code",
        Kind.GC: "(garbage collector)",
    }
    frames = Frames(profile)
    chosen = measure(profile, table.sample_type)
    sums: Counter[Kind] = Counter()
    for sample in profile.samples:
        leaf = frames.list[frames.stack(sample.location_ids)[0]]
        sums[leaf.kind] += chosen.value(sample)
    return [(names[kind], 100 * sums[kind] / table.total) for kind in sorted(kinds) if sums[kind]]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def code(name: str) -> str:
    """A name from outside as code: whatever markup it holds stays text, on one line."""
    if not name:
        return "-"
    plain = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in name)
    plain = plain.replace("|", "\N{BROKEN BAR}")
    longest = max((len(run) for run in _ticks(plain)), default=0)
    if not longest:
        return f"`{plain}`"
    fence = "`" * (longest + 1)
    return f"{fence} {plain} {fence}"


def _ticks(name: str) -> list[str]:
    return "".join(char if char == "`" else " " for char in name).split()


def text(told: str) -> str:
    """Text from outside in a line: no markup, no line break of its own."""
    plain = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in told)
    for char in "\\`*[]<>|#":
        plain = plain.replace(char, f"\\{char}")
    return plain
