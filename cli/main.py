"""The ``isoprof`` command."""

import sys

import typer

from cli import admin, files, look, sessions, top, workers
from cli.outcome import Exit

app = typer.Typer(
    name="isoprof",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="CPU and heap profiles of live V8 isolates.",
    epilog="Configured by ISOPROF_API_BASE_URL, ISOPROF_API_TOKEN and ISOPROF_ACCOUNT_ID, or the "
    "CLOUDFLARE_* variables of the same names.",
)
app.add_typer(workers.app, name="workers")
app.add_typer(sessions.app, name="sessions")
app.add_typer(admin.app, name="admin")
app.command("top")(top.top)
app.command("peek")(look.peek)
app.command("list")(look.list_)
app.command("diff")(files.diff)
app.command("merge")(files.merge)
app.command("convert")(files.convert)


def main() -> int:
    """Run the command line; the exit status (:class:`cli.outcome.Exit`)."""
    try:
        app()
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    return Exit.OK


if __name__ == "__main__":
    sys.exit(main())
