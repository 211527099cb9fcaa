// Tells the edge agent what ran: one shared tail Worker per workerd process, which counts and posts once a second.
//
// Bindings: AGENT, a service that reaches the agent; RUNTIME, the id of this process in the agent's configuration.
// Each service names itself in the props of its `tails` entry: {"service": "<name>"}.
//
// Counting before posting is what makes it cheap. A timer needs a request to live in, so the request that finds
// the counts empty waits for its second and posts what came together until then.
const POST_EVERY_MS = 1000;
const MAX_KEYS = 10000;

let counts = new Map();
let posting = false;

function actorOf(event) {
  return event.durableObjectId ?? null;
}

function count(service, event) {
  const counted = {
    service,
    objectId: actorOf(event),
    entrypoint: event.entrypoint ?? null,
    outcome: event.outcome ?? "unknown",
  };
  const key = JSON.stringify(Object.values(counted));
  const known = counts.get(key);
  if (known) known.count++;
  else if (counts.size < MAX_KEYS) counts.set(key, { ...counted, count: 1 });
}

async function post(env) {
  await scheduler.wait(POST_EVERY_MS);
  const executions = [...counts.values()];
  counts = new Map();
  posting = false;
  try {
    const answer = await env.AGENT.fetch("http://agent/v1/executions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ runtime: env.RUNTIME, executions }),
    });
    await answer.body?.cancel();
  } catch {
    // The agent is away. What ran meanwhile is not worth keeping: it asks what runs now.
  }
}

export default {
  tail(events, env, ctx) {
    const service = ctx.props?.service;
    if (typeof service !== "string") return;
    for (const event of events) count(service, event);
    if (posting || counts.size === 0) return;
    posting = true;
    ctx.waitUntil(post(env));
  },
};
