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
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write here instead of standard output."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]
