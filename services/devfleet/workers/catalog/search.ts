import type { Item } from "./stock.js";

export interface Hit {
  sku: number;
  score: number;
}

function distance(left: string, right: string): number {
  let previous = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let row = 1; row <= left.length; row++) {
    const current = [row];
    for (let column = 1; column <= right.length; column++) {
      const change = left[row - 1] === right[column - 1] ? 0 : 1;
      current[column] = Math.min(
        previous[column] + 1,
        current[column - 1] + 1,
        previous[column - 1] + change,
      );
    }
    previous = current;
  }
  return previous[right.length];
}

export function search(items: readonly Item[], query: string): Hit[] {
  return items
    .map((item) => ({ sku: item.sku, score: distance(item.title, query) }))
    .sort((left, right) => left.score - right.score)
    .slice(0, 5);
}
