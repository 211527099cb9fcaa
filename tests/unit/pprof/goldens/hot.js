// Line numbers matter: the goldens and their tests name them.
function spin(ms) {
  const end = performance.now() + ms; return end;
}
const first = {
  run(n) {
    let s = 0;


    // the hot line of the first:
    for (let i = 0; i < n; i++) s += Math.sqrt(i) * (s % 3);
    return s;
  },
};

const second = {
  run(n) {
    let s = 1;


    // the hot line of the second:
    for (let i = 0; i < n; i++) s += Math.cbrt(i) + (s % 5);
    return s;
  },
};

const callbacks = [
  (n) => { let s = 0; for (let i = 0; i < n; i++) s += Math.sin(i); return s; },
  (n) => { let s = 0; for (let i = 0; i < n; i++) s += Math.cos(i); return s; },
  (n) => { let s = 0; for (let i = 0; i < n; i++) s += Math.atan(i); return s; },
].map((f) => [f])
  .map(([f]) => f);

export default {
  async fetch(request) {
    const url = new URL(request.url);
    switch (url.pathname) {
      case "/runs":
        return new Response(String(first.run(2e5) + second.run(2e5)));
      case "/callbacks":
        return new Response(String([1e5, 1e5, 1e5].map((n, i) => callbacks[i](n))));
      case "/tiny":
        return new Response(String(first.run(1e3)));
      case "/objects":
        return new Response(String(pairs(20000).length + texts(5000).length));
      case "/buffer":
        return new Response(String(new Uint8Array(1 << 20).length));
    }
    return new Response("?", { status: 404 });
  },
};

function pairs(n) {
  const kept = new Array(n);
  for (let i = 0; i < n; i++) kept[i] = { a: i, b: i + 1 };
  return kept;
}

function texts(n) {
  const kept = [];
  for (let i = 0; i < n; i++) kept.push(new Array(100).fill(i));
  return kept;
}
