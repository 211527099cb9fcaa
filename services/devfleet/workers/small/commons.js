// Runs in an isolate that both accounts share, so nobody may profile it.

function greet(name) {
  return "hello " + name;
}

export default {
  async fetch() {
    return new Response(greet("everyone"));
  },
};
