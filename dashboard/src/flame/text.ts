/** Names as text that fits: whatever a name holds, it is one line and takes bounded work. */

/** Control characters and line ends, and what turns the direction of the text around it. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it is for
const UNSHOWABLE = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/** One line of text without anything that would reach beyond itself. */
export function plain(text: string, longest = 400): string {
  const short = text.length > longest ? `${text.slice(0, longest)}…` : text;
  return short.replace(UNSHOWABLE, "\ufffd");
}

/** Fits text into pixels by the widths of its characters, each measured once. */
export class Fitting {
  private readonly widths = new Map<string, number>();
  private readonly ellipsis: number;

  /** `measure` gives the width of a text in pixels. */
  constructor(private readonly measure: (text: string) => number) {
    this.ellipsis = measure("…");
  }

  /** As much of the text as fits, with an ellipsis when that is not all; empty when too little. */
  fit(text: string, room: number): string {
    let used = 0;
    let kept = "";
    for (const character of text) {
      const wide = this.widthOf(character);
      if (used + wide > room) return this.shortened(kept, used, room);
      used += wide;
      kept += character;
    }
    return kept;
  }

  private shortened(kept: string, used: number, room: number): string {
    const characters = [...kept];
    let width = used;
    while (characters.length > 0 && width + this.ellipsis > room)
      width -= this.widthOf(characters.pop() as string);
    return characters.length < 2 ? "" : `${characters.join("")}…`;
  }

  private widthOf(character: string): number {
    let width = this.widths.get(character);
    if (width === undefined) {
      width = this.measure(character);
      this.widths.set(character, width);
    }
    return width;
  }
}
