"""Flame graph documents no honest Worker would make, as the API would send them."""

from __future__ import annotations

from typing import Any

KINDS = ["own", "library", "runtime", "native", "program", "gc", "idle", "mark"]


def document(
    names: list[str],
    nodes: list[tuple[int, int, int]],
    *,
    files: list[str] | None = None,
    cut: dict[str, int] | None = None,
) -> dict[str, Any]:
    """Build a document.

    Args:
        names: of functions.
        nodes: (level, function, self) in preorder.
        files: of the same functions.
    """
    strings = ["", *names, *(files or [])]
    count = len(names)
    selfs = [node[2] for node in nodes]
    return {
        "v": 1,
        "type": "cpu",
        "unit": "nanoseconds",
        "samples_type": "samples",
        "total": sum(selfs),
        "total_samples": len(nodes),
        "period": 1_000_000,
        "time_ns": 0,
        "duration_ns": 1_000_000_000,
        "about": {},
        "strings": strings,
        "kinds": KINDS,
        "functions": {
            "name": list(range(1, count + 1)),
            "file": list(range(count + 1, 2 * count + 1)) if files else [0] * count,
            "line": [1] * count,
            "generated": [0] * count,
            "kind": [0] * count,
        },
        "nodes": {
            "level": [node[0] for node in nodes],
            "fn": [node[1] for node in nodes],
            "self": selfs,
            "samples": [1] * len(nodes),
        },
        "cut": cut,
    }


HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "\u202egnp.exe\u202d right to left",
    "שלום עולם",
    "😀👩‍👩‍👧‍👦🇳🇱",
    "x" * 10_000,
    "line\nbreak\tand\0nul",
    "javascript:alert(3)",
    "{{constructor.constructor('alert(4)')()}}",
]


def hostile() -> dict[str, Any]:
    """Every hostile name, as a function and as a file."""
    nodes = [(0, index, 1_000_000) for index in range(len(HOSTILE))]
    return document(HOSTILE, nodes, files=HOSTILE)
