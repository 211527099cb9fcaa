// A metrics library that is switched off, yet builds the labels and the point of every call before it looks.

const ENABLED = false;
const points = [];

function labelText(value) {
  if (value === null || value === undefined) return "none";
  if (typeof value === "number") return Number.isInteger(value) ? "i" + value : "f" + value.toFixed(3);
  return String(value);
}

function pointOf(kind, name, value, unit, given) {
  const labels = [];
  for (const key of Object.keys(given).sort()) {
    if (key.startsWith("_")) continue;
    labels.push({ name: key.toLowerCase(), value: labelText(given[key]), source: "call" });
  }
  labels.push({ name: "service", value: "metrics", source: "library" });
  labels.push({ name: "unit", value: unit, source: "library" });
  labels.push({ name: "kind", value: kind, source: "library" });
  const attributes = {};
  for (const label of labels) attributes["label." + label.name] = label.value;
  const text = labels.map((label) => label.name + "=" + JSON.stringify(label.value)).join(",");
  const series = name + "{" + text + "}";
  const buckets = [];
  if (kind === "histogram") {
    for (let bound = 1; bound <= 512; bound *= 2) {
      buckets.push({ bound, series: series + ":" + bound, count: value <= bound ? 1 : 0 });
    }
  }
  const help = kind === "counter" ? "Total of " + name : "Distribution of " + name + " in " + unit;
  return {
    kind,
    name,
    value,
    unit,
    help,
    series,
    labels,
    attributes,
    buckets,
    exemplar: { series, value, attributes: { ...attributes, sampled: "false" } },
  };
}

export function count(name, labels) {
  const point = pointOf("counter", name, 1, "calls", labels);
  if (ENABLED) points.push(point);
}

export function observe(name, value, labels) {
  const point = pointOf("histogram", name, value, "cents", labels);
  if (ENABLED) points.push(point);
}
