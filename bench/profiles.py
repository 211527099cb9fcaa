"""What the profile toolbox costs, each figure beside its anchor in the same run.

``python -m bench.profiles [--samples 50000] [--stacks 6000] [--profiles 200] [--rounds 3]``

Conversion: V8 JSON to pprof bytes beside ``pprof-format`` of npm, which only encodes: it gets the
parsed capture, finds the stacks and writes the message, as ours does (skipped without Node.js or
the package; see ``--pprof-format``). Merging: files to file, beside ``go tool pprof -proto`` over
the same files (skipped without it). Both anchors are whole processes; so is ours.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.convert import CONTEXT, capture
from pprof import build_cpu, codec

if TYPE_CHECKING:
    from collections.abc import Sequence

OURS = (
    "import sys; from cli.main import app; app(['merge', *sys.argv[2:], '--output', sys.argv[1]])"
)
CONVERT = """
import gc, sys, time
from pathlib import Path
from bench.convert import CONTEXT
from pprof import build_cpu, codec
data = Path(sys.argv[1]).read_bytes()
def run():
    return codec.encode(build_cpu.profile([data], CONTEXT, 0, 50 * 10**9, 1000).profile)
times = []
gc.disable()  # as the process that builds an agent's profiles
for _ in range(int(sys.argv[2])):
    began = time.process_time()
    out = run()
    times.append((time.process_time() - began) * 1000)
print(sorted(times)[len(times) // 2], len(out))
"""
THEIRS = """
const { Profile, Sample, Location, Line, Function: Fn, Mapping, ValueType, StringTable } = require(process.argv[1]);
const fs = require("fs"), zlib = require("zlib");
const data = fs.readFileSync(process.argv[2]);
function run() {
  let parsed = JSON.parse(data); parsed = parsed.result.profile;
  const strings = new StringTable(), functions = new Map(), locations = new Map(), sums = new Map();
  const nodes = new Map(parsed.nodes.map((n) => [n.id, n])), parents = new Map();
  for (const n of parsed.nodes) for (const c of n.children || []) parents.set(c, n.id);
  parsed.samples.forEach((id, i) => {
    const delta = parsed.timeDeltas[i];
    const known = sums.get(id) || [0, 0];
    known[0]++; known[1] += (delta <= 3000 ? delta : 1090) * 1000;
    sums.set(id, known);
  });
  function location(node) {
    const f = node.callFrame, key = f.scriptId + ":" + f.lineNumber + ":" + f.columnNumber + ":" + f.functionName;
    let found = locations.get(key);
    if (!found) {
      const fn = new Fn({ id: functions.size + 1, name: strings.dedup(f.functionName), systemName: strings.dedup(f.functionName), filename: strings.dedup(f.url), startLine: f.lineNumber + 1 });
      functions.set(key, fn);
      found = new Location({ id: locations.size + 1, mappingId: 1, line: [new Line({ functionId: fn.id, line: f.lineNumber + 1 })] });
      locations.set(key, found);
    }
    return found.id;
  }
  const samples = [];
  for (const [id, value] of sums) {
    const stack = [];
    for (let at = id; at !== undefined && parents.has(at); at = parents.get(at)) stack.push(location(nodes.get(at)));
    samples.push(new Sample({ locationId: stack, value }));
  }
  const type = (t, u) => new ValueType({ type: strings.dedup(t), unit: strings.dedup(u) });
  const profile = new Profile({ sampleType: [type("samples", "count"), type("cpu", "nanoseconds")], sample: samples, mapping: [new Mapping({ id: 1 })], location: [...locations.values()], function: [...functions.values()], stringTable: strings, periodType: type("cpu", "nanoseconds"), period: 1000000 });
  return zlib.gzipSync(profile.encode(), { level: 6 });
}
const times = []; let out;
for (let i = 0; i < +process.argv[3]; i++) {
  const before = process.cpuUsage(); out = run(); const used = process.cpuUsage(before);
  times.push((used.user + used.system) / 1000);
}
times.sort((a, b) => a - b);
console.log(times[times.length >> 1], out.length);
"""


def timed(words: Sequence[str]) -> tuple[str, float, float]:
    """Run to its end: output, seconds on the clock, seconds of CPU."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    wall_s = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, wall_s, cpu_s


def conversion(
    folder: Path, samples: int, stacks: int, rounds: int, package: Path
) -> dict[str, object]:
    """CPU per conversion, the first rounds of each process left out by taking the median."""
    file = folder / "capture.json"
    file.write_bytes(capture(samples, stacks, seed=0))
    ours_ms = float(timed([sys.executable, "-c", CONVERT, str(file), str(rounds)])[0].split()[0])
    told: dict[str, object] = {
        "json_bytes": file.stat().st_size,
        "convert_cpu_ms": round(ours_ms, 1),
    }
    node = shutil.which("node")
    if node is None or not package.exists():
        return told | {"pprof_format": "skipped: no Node.js, or no pprof-format package"}
    out, _, _ = timed([node, "-e", THEIRS, str(package), str(file), str(rounds)])
    theirs_ms = float(out.split()[0])
    return told | {
        "pprof_format_cpu_ms": round(theirs_ms, 1),
        "convert_over_pprof_format": round(ours_ms / theirs_ms, 2),
    }


def merging(folder: Path, samples: int, stacks: int, count: int) -> dict[str, object]:
    """Files to file: ours, then Go's, over the same files."""
    # A few different captures, each many times: a fleet runs one program, and making 200 takes long.
    different = [
        codec.encode(
            build_cpu.profile(
                [capture(samples, stacks, seed)], CONTEXT, 0, 50 * 10**9, 1000
            ).profile
        )
        for seed in range(4)
    ]
    files = []
    for number in range(count):
        file = folder / f"{number}.pprof"
        file.write_bytes(different[number % len(different)])
        files.append(str(file))
    _, ours_s, ours_cpu_s = timed([sys.executable, "-c", OURS, str(folder / "ours.pprof"), *files])
    told: dict[str, object] = {
        "merged": count,
        "merge_s": round(ours_s, 2),
        "merge_cpu_s": round(ours_cpu_s, 2),
    }
    go = shutil.which("go")
    if go is None:
        return told | {"go_tool_pprof": "skipped: no go"}
    theirs = folder / "theirs.pprof"
    _, theirs_s, theirs_cpu_s = timed([go, "tool", "pprof", "-proto", f"-output={theirs}", *files])
    return told | {
        "go_s": round(theirs_s, 2),
        "go_cpu_s": round(theirs_cpu_s, 2),
        "merge_over_go": round(ours_s / theirs_s, 2),
        "merge_cpu_over_go": round(ours_cpu_s / theirs_cpu_s, 2),
    }


def main() -> None:
    """Measure and print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--stacks", type=int, default=6_000)
    parser.add_argument("--profiles", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--pprof-format",
        type=Path,
        default=Path("node_modules/pprof-format"),
        help="the npm package: npm install --no-save pprof-format",
    )
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        package = wanted.pprof_format.resolve()
        told = conversion(folder, wanted.samples, wanted.stacks, wanted.rounds, package)
        told |= merging(folder, wanted.samples, wanted.stacks, wanted.profiles)
    print(json.dumps({"load": round(os.getloadavg()[0], 1)} | told))


if __name__ == "__main__":
    main()
