// One pure JavaScript loop is all there is.

function collatz(limit) {
  let longest = 0;
  for (let start = 1; start < limit; start++) {
    let length = 0;
    for (let value = start; value !== 1; value = value % 2 ? 3 * value + 1 : value / 2) length++;
    if (length > longest) longest = length;
  }
  return longest;
}

export default {
  async fetch() {
    return new Response(String(collatz(60_000)));
  },
};
