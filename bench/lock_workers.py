"""The three Workers that the cost of the isolate's lock is measured on, as module text."""

from __future__ import annotations

WAYS = 17

SPIN = """
function spin(rounds) {
  let sum = 0;
  for (let i = 0; i < rounds; i++) sum += Math.sqrt(i);
  return sum;
}
"""

TINY = f"""{SPIN}
export default {{ fetch: () => new Response(String(spin(1000000))) }};
"""

# Recursion of 500 frames: the runtime keeps 255 of them.
DEEP = f"""{SPIN}
function descend(depth) {{
  if (depth === 0) return spin(200000);
  return spin(1500) + descend(depth - 1);
}}

export default {{ fetch: () => new Response(String(descend(500))) }};
"""


def wide() -> str:
    """About 5,000 distinct stacks (three of 17 ways in, then three frames), some hotter than others.

    Each way is a function of its own text: closures over one text would be one function to V8.
    """
    ways = "\n".join(
        f"function way{n}(path, depth) {{ return depth === 0 ? near(path) : "
        f"ways[path % {WAYS}](Math.floor(path / {WAYS}), depth - 1) + {n}; }}"
        for n in range(WAYS)
    )
    names = ", ".join(f"way{n}" for n in range(WAYS))
    return f"""{SPIN}
let seed = 1;
function random() {{
  seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
  return seed / 0x80000000;
}}
function leaf() {{ return spin(7000) + 1; }}
function near(path) {{ return leaf(path) + 1; }}
{ways}
const ways = [{names}];

export default {{
  fetch() {{
    let sum = 0;
    for (let i = 0; i < 100; i++) {{
      const path = Math.floor({WAYS**3} * random() ** 2);
      sum += ways[path % {WAYS}](Math.floor(path / {WAYS}), 2);
    }}
    return new Response(String(sum));
  }},
}};
"""


MODULES = {"tiny": TINY, "deep": DEEP, "wide": wide()}
