"""What source maps cost: 3,000 functions and their hot lines, beside a plain loop over symbolic.

``python -m bench.symbolize [--functions 3000] [--rounds 7] [--folder DIR]``

A synthetic program of that many functions in a hundred TypeScript files is bundled by esbuild, once
minified into one line and once not, with its map; every function of the bundle is in the profile,
and in the bundle of many lines each has a hot line of its own. The plain loop looks each function's
start up with ``symbolic`` and does nothing else: no hot lines, no names, no new profile.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from symbolic.sourcemap import SourceMapView

from pprof.model import CPU_PERIOD, CPU_TYPES, Function, Line, Location, Profile, Sample
from pprof.sourcemaps import SourceMap
from pprof.symbolize import symbolize
from services.devfleet.build import tool

if TYPE_CHECKING:
    from collections.abc import Callable

FILES = 100
# A name, and where the engine says the function starts: its parenthesis, or an arrow's parameter.
STARTS = re.compile(
    r"function (?P<named>[\w$]+)(?P<at>\()|(?P<arrow>[\w$]+) ?= ?(?P<from>\((?=[\w, ]*\) ?=>)|[\w$]+(?==>))"
)


def program(folder: Path, functions: int) -> Path:
    rng = random.Random(5)
    per_file = functions // FILES
    for number in range(FILES):
        lines = []
        for index in range(per_file):
            name = f"step{number}x{index}"
            if index % 2:
                lines.append(f"export const {name} = (value: number): number => {{")
            else:
                lines.append(f"export function {name}(value: number): number {{")
            lines.append("  let total: number = value;")
            lines.append(f"  for (let at = 0; at < {rng.randrange(99)}; at++) {{")
            lines.append(f"    total += (at * {rng.randrange(99)}) % 7;")
            lines.append("  }")
            lines.append("  return total;")
            lines.append("};" if index % 2 else "}")
        (folder / f"part{number}.ts").write_text("\n".join(lines) + "\n")
    entry = folder / "index.ts"
    imports = [f'import * as part{n} from "./part{n}";' for n in range(FILES)]
    kept = [f"globalThis.kept{n} = part{n};" for n in range(FILES)]
    entry.write_text("\n".join(imports + kept) + "\n")
    return entry


def bundle(entry: Path, *, minify: bool) -> tuple[str, bytes]:
    out = entry.with_name("min.js" if minify else "plain.js")
    command = [
        str(tool("@esbuild/*/bin/esbuild", "esbuild")),
        str(entry),
        "--bundle",
        "--format=esm",
    ]
    command += ["--sourcemap", "--log-level=error", f"--outfile={out}", *(["--minify"] * minify)]
    subprocess.run(command, check=True, timeout=60)
    return out.read_text(), Path(f"{out}.map").read_bytes()


def profile(script: str, text: str, most: int) -> Profile:
    functions: list[Function] = []
    locations: list[Location] = []
    lines = [0]
    lines += [found.end() for found in re.finditer("\n", text)]
    at = 0
    for found in STARTS.finditer(text):
        if len(functions) == most:
            break
        start = found.start("at") if found["named"] else found.start("from")
        while at + 1 < len(lines) and lines[at + 1] <= start:
            at += 1
        id_ = len(functions) + 1
        column = start - lines[at] + 1
        functions.append(
            Function(
                id=id_,
                name=found["named"] or found["arrow"],
                system_name=f"{script}:{at + 1}:{column}",
                filename=script,
                start_line=at + 1,
            )
        )
        hot = (
            Line(function_id=id_, line=at + 4)
            if len(lines) > 100
            else Line(function_id=id_, line=at + 1, column=column)
        )
        locations.append(Location(id=id_, mapping_id=0, lines=(hot,)))
    return Profile(
        sample_types=CPU_TYPES,
        samples=tuple(Sample(location_ids=(one.id,), values=(1, 10**6)) for one in locations),
        locations=tuple(locations),
        functions=tuple(functions),
        mappings=(),
        time_ns=0,
        duration_ns=10**9,
        period_type=CPU_PERIOD,
        period=10**6,
    )


def cpu_ms(rounds: int, run: Callable[[], object]) -> float:
    taken = []
    for _ in range(rounds):
        began = time.process_time()
        run()
        taken.append((time.process_time() - began) * 1000)
    return round(statistics.median(taken), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--functions", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=7)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        entry = program(Path(name), wanted.functions)
        for minify in (True, False):
            text, data = bundle(entry, minify=minify)
            taken = profile("bundle.js", text, wanted.functions)
            places = [one.system_name.split(":")[1:] for one in taken.functions]
            places_0 = [(int(line) - 1, int(column) - 1) for line, column in places]

            def ours(data: bytes = data, taken: Profile = taken) -> object:
                return symbolize(taken, {"bundle.js": SourceMap(data)})

            def plain(data: bytes = data, places: list[tuple[int, int]] = places_0) -> object:
                view = SourceMapView.from_json_bytes(data)
                return [view.lookup(line, column) for line, column in places]

            out = symbolize(taken, {"bundle.js": SourceMap(data)})
            named = sum(
                bool(re.fullmatch(r"step\d+x\d+", one.name)) for one in out.profile.functions
            )
            ours_ms, plain_ms = cpu_ms(wanted.rounds, ours), cpu_ms(wanted.rounds, plain)
            print(
                json.dumps(
                    {
                        "bundle": "one line" if minify else "many lines",
                        "functions": len(taken.functions),
                        "mapped": out.mapped,
                        "named_as_in_source": named,
                        "map_bytes": len(data),
                        "symbolize_cpu_ms": ours_ms,
                        "plain_symbolic_cpu_ms": plain_ms,
                        "ratio": round(ours_ms / plain_ms, 2),
                    }
                )
            )


if __name__ == "__main__":
    main()
