"""Bundles the TypeScript samples with esbuild, source map beside the bundle, once per content."""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

from services.devfleet.faults import ToolMissing

WORKERS = Path(__file__).parent / "workers"
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """What esbuild made of one entry point."""

    script: Path
    source_map: Path


def tool(pattern: str, name: str) -> Path:
    """Find the native binary of an npm package, whichever platform package brought it.

    Raises:
        ToolMissing: when the packages of package-lock.json are not installed.
    """
    found = sorted((ROOT / "node_modules").glob(pattern))
    if not found:
        raise ToolMissing(
            f"{name} is not installed: run `npm ci` in {ROOT.name}/ (or `make setup`)"
        )
    return found[0]


def bundled(entry: str, data_dir: Path) -> Bundle:
    """Bundle ``workers/<entry>``, unless a bundle of the same sources is there already."""
    folder = (WORKERS / entry).parent
    digest = hashlib.sha256()
    for source in sorted(folder.glob("*.ts")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    out = data_dir / "build" / f"{folder.name}-{digest.hexdigest()[:16]}" / "worker.js"
    bundle = Bundle(script=out, source_map=out.with_name("worker.js.map"))
    if bundle.script.exists() and bundle.source_map.exists():
        return bundle
    out.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [
            str(tool("@esbuild/*/bin/esbuild", "esbuild")),
            str(WORKERS / entry),
            "--bundle",
            "--format=esm",
            "--target=es2024",
            "--minify",
            "--sourcemap",
            "--sources-content=true",
            "--log-level=warning",
            f"--outfile={out}",
        ],
        check=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        # Not in the foreground group: a Ctrl-C is for us to act on.
        start_new_session=True,
    )
    return bundle
