// The second account's Worker.

function balance(entries) {
  let sum = 0;
  for (let entry = 0; entry < entries; entry++) sum += ((entry * 7919) % 2003) - 1001;
  return sum;
}

export default {
  async fetch() {
    return new Response(String(balance(250_000)));
  },
};
