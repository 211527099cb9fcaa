import { search, type Hit } from "./search.js";
import { stock } from "./stock.js";

interface Answer {
  query: string;
  hits: Hit[];
}

const items = stock(400);
const queries = ["blue lamp", "oak table", "small chair", "green rug"];
let served = 0;

export default {
  async fetch(): Promise<Response> {
    const query = queries[served++ % queries.length];
    const answer: Answer = { query, hits: search(items, query) };
    return Response.json(answer);
  },
};
