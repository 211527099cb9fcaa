// Uploaded and loaded, and no request has ever been sent to it.

let served = 0;

export default {
  async fetch() {
    return Response.json({ order: ++served, total: 0 });
  },
};
