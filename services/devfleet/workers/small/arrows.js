// Two arrow functions kept in constants; both append to a string.
//
// What they append is computed in their own loops: V8 bills time in the string builtins, which set up no frame, to the
// caller's caller, so functions that only append hardly show.

const appendDigits = (count) => {
  let text = "";
  for (let index = 0, digit = 1; index < count; index++) {
    for (let round = 0; round < 40; round++) digit = (digit * 31 + index + round) % 9973;
    text += digit % 10;
  }
  return text;
};

const appendWords = (count) => {
  let text = "";
  for (let index = 0, word = 1; index < count; index++) {
    for (let round = 0; round < 80; round++) word = (word * 37 + index + round) % 9967;
    text += " word" + (word % 100);
  }
  return text;
};

export default {
  async fetch() {
    const digits = appendDigits(8_000);
    const words = appendWords(4_000);
    return new Response(String(digits.length + words.length));
  },
};
