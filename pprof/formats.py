"""Every form a profile is handed out in besides pprof itself, by the name callers know it by."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pprof.flame import DEFAULT_MAX_NODES, document, flame
from pprof.top import top

if TYPE_CHECKING:
    from collections.abc import Callable

    from pprof.model import Profile


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a caller may say about a form.

    Args:
        sample_type: which value; empty for the profile's default.
        max_nodes: of a flame tree.
        title: what the profile is of, for forms that carry a name.
    """

    sample_type: str = ""
    max_nodes: int = DEFAULT_MAX_NODES
    title: str = "profile"


@dataclass(frozen=True, kw_only=True)
class Format:
    """One form.

    Args:
        version: grows when the same profile comes out as other bytes.
        ending: of a file's name.
    """

    version: int
    content_type: str
    ending: str
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
    table = asdict(top(profile, options.sample_type))
    return packed({"success": True, "errors": [], "messages": [], "result": table})


FORMATS = {
    "flamegraph": Format(
        version=1, content_type="application/json", ending="flamegraph.json", render=_flamegraph
    ),
    "top": Format(version=1, content_type="application/json", ending="top.json", render=_top),
}
