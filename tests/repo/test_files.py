"""What may not stand in a file, and how long a file may be."""

from __future__ import annotations

import re
import statistics

from tests.repo.tree import files, texts

SOURCE = (".py", ".ts", ".tsx", ".js", ".sql")
GENERATED = re.compile(r"_pb2(_grpc)?\.pyi?$")
LONGEST, MEDIAN = 600, 150
MACHINE_PATH = re.compile(r"(?<![\w.}/*-])/(?:work|root|home/\w+|Users/\w+|opt/pypi|mnt)/[a-z]")
# Written in pieces, or this file would name them.
REGISTRY = re.compile(
    r"py"
    r"pi\.org|files\.python"
    r"hosted|registry\.npm"
    r"js|deb\.deb"
    r"ian\.org|registry\.yarn"
    r"pkg"
)
CONFLICT = re.compile(r"^(<{7} |>{7} )", re.MULTILINE)


def test_no_source_file_is_too_long() -> None:
    lengths = {
        name: text.count("\n")
        for name, text in texts()
        if name.endswith(SOURCE) and not GENERATED.search(name)
    }
    assert {name: length for name, length in lengths.items() if length > LONGEST} == {}
    assert statistics.median(lengths.values()) <= MEDIAN


def test_no_file_names_a_machine_or_a_registry() -> None:
    for name, text in texts():
        for number, line in enumerate(text.splitlines(), start=1):
            assert not MACHINE_PATH.search(line), f"{name}:{number}"
            assert not REGISTRY.search(line), f"{name}:{number}"


def test_no_conflict_marker_and_one_newline_at_the_end() -> None:
    for name, text in texts():
        assert not CONFLICT.search(text), name
        if not name.endswith(".json"):
            assert not text or text.rstrip("\n") + "\n" == text, name


def test_nothing_that_is_made_is_committed() -> None:
    made = re.compile(r"(^|/)(\.venv|node_modules|\.isoprof|__pycache__)(/|$)|worker-\w+\.pprof$")
    assert [path for path in files() if made.search(str(path))] == []
