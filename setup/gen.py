"""Generate the protobuf code beside its ``.proto`` files; ``--check`` says whether it is current.

The repository's root is the import path: a file's place is its name in protobuf and Python alike.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GENERATED = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", "*_pb2_grpc.pyi")


def generate(into: Path) -> None:
    """Write the code of every ``.proto`` under ``into``."""
    protos = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("protos/**/*.proto"))
    outputs = [
        f"--python_out={into}",
        f"--grpc_python_out={into}",
        f"--mypy_out={into}",
        f"--mypy_grpc_out=only_async:{into}",
    ]
    plugins = [
        f"--plugin={name}={Path(sys.executable).parent / name}"
        for name in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")
    ]
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I", ".", *plugins, *outputs, *protos]
    subprocess.run(command, cwd=ROOT, check=True)


def generated(root: Path) -> dict[str, bytes]:
    """Read generated files under ``root``, by path relative to it."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for pattern in GENERATED
        for path in root.glob(f"protos/**/{pattern}")
    }


def stale() -> list[str]:
    """Paths that differ from what the ``.proto`` files now give, or stand without one."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        wanted = generated(Path(folder))
    present = generated(ROOT)
    return sorted(path for path in wanted | present if wanted.get(path) != present.get(path))


def main() -> int:
    """Generate, or check; 1 when something is stale."""
    parser = argparse.ArgumentParser(description="Generate protobuf code.")
    parser.add_argument("--check", action="store_true", help="change nothing, say what is stale")
    if not parser.parse_args().check:
        generate(ROOT)
        return 0
    paths = stale()
    for path in paths:
        print(f"{path} is not what its .proto gives: make gen", file=sys.stderr)
    return 1 if paths else 0


if __name__ == "__main__":
    sys.exit(main())
