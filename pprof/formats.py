"""Every form a profile is handed out in besides pprof itself, by the name callers know it by."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pprof import cpuprofile, diff_forms
from pprof.diff import Normalize, diff
from pprof.flame import DEFAULT_MAX_NODES, document, flame
from pprof.folded import folded
from pprof.markdown import compared, markdown
from pprof.speedscope import speedscope
from pprof.top import top

if TYPE_CHECKING:
    from collections.abc import Callable

    from pprof.diff import Diff
    from pprof.model import Profile


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a caller may say about a form.

    Args:
        sample_type: which value; empty for the profile's default.
        max_nodes: of a flame tree.
        normalize: what two profiles are made equal in before they are compared.
        title: what the profile is of, for forms that carry a name.
    """

    sample_type: str = ""
    max_nodes: int = DEFAULT_MAX_NODES
    normalize: Normalize = Normalize.TOTAL
    title: str = "profile"


@dataclass(frozen=True, kw_only=True)
class Format:
    """One form.

    Args:
        version: grows when the same profile comes out as other bytes.
        ending: of a file's name.
        takes: which options have a meaning for it.
    """

    version: int
    content_type: str
    ending: str
    takes: frozenset[str] = frozenset()
    render: Callable[[Profile, Options], bytes]


def render(profile: Profile, name: str, options: Options) -> bytes:
    """A checked profile in a form of ``FORMATS``. Pure and CPU-bound.

    Raises:
        ProfileInvalid: the profile has not what the form or the options need.
    """
    return FORMATS[name].render(profile, options)


def packed(body: object) -> bytes:
    """JSON as small as it gets, in UTF-8."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _flamegraph(profile: Profile, options: Options) -> bytes:
    return packed(document(profile, flame(profile, options.sample_type, options.max_nodes)))


def _top(profile: Profile, options: Options) -> bytes:
    return _enveloped(asdict(top(profile, options.sample_type)))


def _enveloped(result: object) -> bytes:
    return packed({"success": True, "errors": [], "messages": [], "result": result})


def _speedscope(profile: Profile, options: Options) -> bytes:
    return packed(speedscope(profile, options.title))


def _folded(profile: Profile, options: Options) -> bytes:
    return folded(profile, options.sample_type).encode()


def _cpuprofile(profile: Profile, options: Options) -> bytes:
    del options
    return packed(cpuprofile.written(profile))


def _markdown(profile: Profile, options: Options) -> bytes:
    return markdown(profile, options.title, options.sample_type).encode()


JSON_TYPE = "application/json"
FORMATS = {
    "flamegraph": Format(
        version=1,
        content_type=JSON_TYPE,
        ending="flamegraph.json",
        takes=frozenset({"sample_type", "max_nodes"}),
        render=_flamegraph,
    ),
    "top": Format(
        version=1,
        content_type=JSON_TYPE,
        ending="top.json",
        takes=frozenset({"sample_type"}),
        render=_top,
    ),
    "speedscope": Format(
        version=1, content_type=JSON_TYPE, ending="speedscope.json", render=_speedscope
    ),
    "folded": Format(
        version=1,
        content_type="text/plain",
        ending="folded.txt",
        takes=frozenset({"sample_type"}),
        render=_folded,
    ),
    "cpuprofile": Format(
        version=1, content_type=JSON_TYPE, ending="cpuprofile", render=_cpuprofile
    ),
    "markdown": Format(
        version=1,
        content_type="text/markdown",
        ending="md",
        takes=frozenset({"sample_type"}),
        render=_markdown,
    ),
}


def compare(base: Profile, new: Profile, name: str, options: Options) -> bytes:
    """Two checked profiles compared, in a form of ``DIFF_FORMATS``. Pure and CPU-bound.

    Raises:
        ProfileInvalid: they can't be compared so.
    """
    return DIFF_FORMATS[name].compare(base, new, options)


@dataclass(frozen=True, kw_only=True)
class DiffFormat:
    """One form of a comparison; as ``Format``."""

    version: int
    content_type: str
    ending: str
    takes: frozenset[str]
    compare: Callable[[Profile, Profile, Options], bytes]


def _found(base: Profile, new: Profile, options: Options) -> Diff:
    return diff(base, new, options.normalize, options.sample_type, options.max_nodes)


def _diff_top(base: Profile, new: Profile, options: Options) -> bytes:
    return _enveloped(diff_forms.table(_found(base, new, options)))


def _diff_flamegraph(base: Profile, new: Profile, options: Options) -> bytes:
    found = _found(base, new, options)
    return packed(diff_forms.flamegraph(found, base, new, options.max_nodes))


def _diff_markdown(base: Profile, new: Profile, options: Options) -> bytes:
    return compared(_found(base, new, options), options.title).encode()


_COMPARED_BY = frozenset({"sample_type", "normalize"})
DIFF_FORMATS = {
    "top": DiffFormat(
        version=1,
        content_type=JSON_TYPE,
        ending="diff.json",
        takes=_COMPARED_BY,
        compare=_diff_top,
    ),
    "flamegraph": DiffFormat(
        version=1,
        content_type=JSON_TYPE,
        ending="diff.flamegraph.json",
        takes=_COMPARED_BY | {"max_nodes"},
        compare=_diff_flamegraph,
    ),
    "markdown": DiffFormat(
        version=1,
        content_type="text/markdown",
        ending="diff.md",
        takes=_COMPARED_BY,
        compare=_diff_markdown,
    ),
}
