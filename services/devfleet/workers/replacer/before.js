// An audit log is written as JSON with every secret masked. The mask looks through the whole value it is
// given, and JSON.stringify calls it again for every part of that value: work grows with the square of the depth.

function auditChain(length) {
  let entry = null;
  for (let step = length; step > 0; step--) {
    entry = { step, actor: "user-" + (step % 17), action: "update", secret: "s" + step, previous: entry };
  }
  return entry;
}

function maskSecrets(value) {
  if (value === null || typeof value !== "object") return value;
  const masked = {};
  for (const name of Object.keys(value)) {
    masked[name] = name === "secret" ? "***" : maskSecrets(value[name]);
  }
  return masked;
}

function auditReplacer(key, value) {
  return maskSecrets(value);
}

export default {
  async fetch() {
    const chain = auditChain(160);
    return new Response(JSON.stringify(chain, auditReplacer), {
      headers: { "content-type": "application/json" },
    });
  },
};
