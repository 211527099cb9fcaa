export interface Item {
  sku: number;
  title: string;
}

enum Colour {
  Blue = "blue",
  Green = "green",
  Oak = "oak",
}

const things: readonly string[] = ["lamp", "table", "chair", "rug", "shelf"];

export function stock(size: number): Item[] {
  const colours = Object.values(Colour);
  return Array.from({ length: size }, (_, sku) => ({
    sku,
    title: `${colours[sku % colours.length]} ${things[sku % things.length]}`,
  }));
}
