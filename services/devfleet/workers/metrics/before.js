import { count, observe } from "metrics.js";

function priceOf(line) {
  return line.quantity * (100 + (line.sku % 50));
}

function totalOf(order) {
  let total = 0;
  for (let sku = 0; sku < 60; sku++) {
    const line = { sku, quantity: 1 + ((order + sku) % 5) };
    count("line_priced", { sku, order });
    total += priceOf(line);
    observe("line_total", total, { sku, order });
  }
  return total;
}

let orders = 0;

export default {
  async fetch() {
    return Response.json({ order: ++orders, total: totalOf(orders) });
  },
};
