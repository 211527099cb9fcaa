// /hold?ms=60000 answers only after that long, doing a little now and then; / answers at once.

function note(step) {
  return { step, text: "still here ".repeat(20) + step };
}

export default {
  async fetch(request) {
    const left = Number(new URL(request.url).searchParams.get("ms") ?? 0);
    let notes = 0;
    for (let waited = 0; waited < left; waited += 100) {
      notes += note(waited).text.length > 0 ? 1 : 0;
      await scheduler.wait(100);
    }
    return new Response("waited " + notes);
  },
};
