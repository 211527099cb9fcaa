"""Hold the dashboard to its size: all that a browser loads of it, packed."""

from __future__ import annotations

import sys
from pathlib import Path

ASSETS = Path(__file__).resolve().parent.parent / "dashboard" / "dist" / "assets"
LIMIT_BYTES = 150_000


def main() -> int:
    """Print the size; 1 when it is over the limit, or when there is nothing to measure."""
    sizes = {path.name: path.stat().st_size for path in sorted(ASSETS.glob("*.gz"))}
    whole = sum(sizes.values())
    for name, size in sizes.items():
        print(f"  {size / 1000:7.1f} KB  {name}")
    print(f"  {whole / 1000:7.1f} KB  of {LIMIT_BYTES / 1000:.0f} KB")
    if not sizes:
        print("the dashboard is not built: python3 setup/bootstrap.py dev", file=sys.stderr)
    return 0 if sizes and whole <= LIMIT_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
