// A metrics library that is switched off, yet builds the labels and the point of every call before it looks.

const ENABLED = false;
const points = [];

function labelsOf(labels) {
  const sorted = Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1));
  return sorted.map(([name, value]) => ({ name, value: String(value) }));
}

function pointOf(name, value, labels) {
  const series = name + "{" + labels.map((label) => label.name + "=" + label.value).join(",") + "}";
  return { name, value, labels, series, exemplars: [], attributes: { ...labels } };
}

export function count(name, labels) {
  const point = pointOf(name, 1, labelsOf({ ...labels, service: "metrics", unit: "calls" }));
  if (ENABLED) points.push(point);
}

export function observe(name, value, labels) {
  const point = pointOf(name, value, labelsOf({ ...labels, service: "metrics", unit: "ms" }));
  if (ENABLED) points.push(point);
}
