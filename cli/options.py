"""Options that several commands take, said once."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class ProfileTypeName(StrEnum):
    """What is sampled."""

    CPU = "cpu"
    HEAP = "heap"


WorkerId = Annotated[
    str, typer.Option("--worker-id", metavar="WORKER", help="The Worker's id or name.")
]
DurationMs = Annotated[
    int, typer.Option("--duration-ms", metavar="N", help="How long to sample, 1000 to 50000.")
]
ProfileType = Annotated[
    ProfileTypeName, typer.Option("--profile-type", help="CPU time or allocations.")
]
NamespaceId = Annotated[
    str | None,
    typer.Option("--namespace-id", help="Durable Object namespace, with an object's id or name."),
]
ActorId = Annotated[
    str | None, typer.Option("--actor-id", help="The Durable Object's id, 64 hex digits.")
]
ActorName = Annotated[
    str | None, typer.Option("--actor-name", help="The Durable Object's name, instead of its id.")
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write here instead of standard output."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]
ProfileFile = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="A pprof or .cpuprofile file; - is standard input."),
]
SampleType = Annotated[
    str,
    typer.Option("--sample-type", metavar="TYPE", help="Which value; the file's default if not."),
]
Focus = Annotated[
    str | None,
    typer.Option(
        "--focus", metavar="REGEX", help="Only stacks with such a function; the rest: (filtered)."
    ),
]
Ignore = Annotated[
    str | None,
    typer.Option("--ignore", metavar="REGEX", help="No stacks with such a function: (filtered)."),
]
Hide = Annotated[
    str | None,
    typer.Option("--hide", metavar="REGEX", help="Not these functions: their callers pay."),
]
PruneRuntime = Annotated[
    bool,
    typer.Option("--prune-runtime", help="Hide frames that are no JavaScript of the program."),
]
