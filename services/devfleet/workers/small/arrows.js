// Two arrow functions kept in constants; both append to a string.

const appendDigits = (count) => {
  let text = "";
  for (let index = 0; index < count; index++) text += index % 10;
  return text;
};

const appendWords = (count) => {
  let text = "";
  for (let index = 0; index < count; index++) text += " word" + (index % 100);
  return text;
};

export default {
  async fetch() {
    const digits = appendDigits(60_000);
    const words = appendWords(30_000);
    return new Response(String(digits.length + words.length));
  },
};
