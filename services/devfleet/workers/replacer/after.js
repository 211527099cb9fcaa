// The same audit log; the mask looks at the one field it is called for and leaves the walking to JSON.stringify.

function auditChain(length) {
  let entry = null;
  for (let step = length; step > 0; step--) {
    entry = { step, actor: "user-" + (step % 17), action: "update", secret: "s" + step, previous: entry };
  }
  return entry;
}

function auditReplacer(key, value) {
  return key === "secret" ? "***" : value;
}

export default {
  async fetch() {
    const chain = auditChain(160);
    return new Response(JSON.stringify(chain, auditReplacer), {
      headers: { "content-type": "application/json" },
    });
  },
};
