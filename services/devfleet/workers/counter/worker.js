// A Durable Object per counter. Traffic names the objects in the path: /alpha, /beta, /gamma.

function mix(seed, rounds) {
  let value = seed >>> 0;
  for (let round = 0; round < rounds; round++) value = (Math.imul(value, 1664525) + 1013904223) >>> 0;
  return value;
}

export class Counter {
  constructor(state) {
    this.state = state;
  }

  async increment() {
    const value = ((await this.state.storage.get("value")) ?? 0) + 1;
    await this.state.storage.put("value", value);
    return { value, digest: mix(value, 400_000) };
  }

  async fetch() {
    return Response.json({ id: this.state.id.toString(), ...(await this.increment()) });
  }
}

export default {
  async fetch(request, env) {
    const name = new URL(request.url).pathname.slice(1) || "alpha";
    return env.COUNTERS.get(env.COUNTERS.idFromName(name)).fetch(request);
  },
};
