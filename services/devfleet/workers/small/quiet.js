// A millisecond or two of work, asked for once a second: a round trip through JSON, which needs no warming up.

const rows = Array.from({ length: 4_000 }, (_, row) => ({ row, name: "row " + row, even: row % 2 === 0 }));

function roundTrip(value) {
  return JSON.parse(JSON.stringify(value)).length;
}

export default {
  async fetch() {
    return new Response(String(roundTrip(rows)));
  },
};
