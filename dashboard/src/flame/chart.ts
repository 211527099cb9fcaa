/**
 * The flame graph as a thing on the page: one element to look at, point at and walk through.
 *
 * It knows trees, not profiles or links: whoever shows it says what is drawn and hears what was
 * pointed at, walked to, opened. Free of any framework.
 */

import { INK, type Theme } from "./colours";
import { type Measures, spread, write } from "./paint";
import { neighbour, nodeAt, rasterise, type Window } from "./raster";
import { Fitting } from "./text";
import { at, childrenOf, type Tree } from "./tree";

/** What to draw. */
export interface Scene {
  readonly tree: Tree;
  /** Node that fills the width. */
  readonly focus: number;
  /** Callers below what they call, for the upper half of a sandwich. */
  readonly upward: boolean;
  /** First level that has a row: 0 shows the whole, 1 leaves it out. */
  readonly fromLevel: number;
  /** Colour of a node, as a pixel. */
  readonly colourOf: (node: number) => number;
  readonly isFaded: (node: number) => boolean;
  readonly nameOf: (node: number) => string;
  /** What a person who hears the page is told about a node. */
  readonly tell: (node: number) => string;
  readonly theme: Theme;
}

/** What it tells. Points are in CSS pixels of the page's window. */
export interface Hearing {
  /** Pointed at a node, or at none (-1). */
  hover(node: number, x: number, y: number): void;
  /** Walked to a node by keyboard, or clicked it. */
  active(node: number): void;
  /** To be filled with a node. */
  open(node: number): void;
  /** To go back out: Escape. */
  leave(): void;
}

const ROW_PX = 20;
const FONT_PX = 12;
const LABEL_FROM_PX = 26;
const DRAG_FROM_PX = 4;
const LEAST_SHARE = 1e-7;

export class Chart {
  private readonly sheet = document.createElement("div");
  private readonly stage = document.createElement("div");
  private readonly base = document.createElement("canvas");
  private readonly marks = document.createElement("canvas");
  private readonly voice = document.createElement("div");
  private readonly listening = new AbortController();
  private readonly watching: ResizeObserver;
  private scene: Scene | null = null;
  private window: Window = { from: 0, to: 1 };
  private hovered = -1;
  private walkedTo = -1;
  private frame = 0;
  private stale = false;
  private marked: [left: number, top: number, wide: number, high: number][] = [];
  private drag: { x: number; from: number; moved: boolean } | null = null;
  private fitting: { font: string; fitting: Fitting } | null = null;
  private paintedOnce: (() => void) | null = null;

  constructor(
    private readonly host: HTMLElement,
    private readonly hearing: Hearing,
    names: { readonly id: string; readonly label: string },
  ) {
    host.classList.add("flame");
    host.tabIndex = 0;
    host.setAttribute("role", "tree");
    host.setAttribute("aria-label", names.label);
    host.setAttribute("aria-activedescendant", names.id);
    this.sheet.className = "flame-sheet";
    this.stage.className = "flame-stage";
    this.base.className = "flame-base";
    this.marks.className = "flame-marks";
    this.voice.className = "unseen";
    this.voice.id = names.id;
    this.voice.setAttribute("role", "treeitem");
    this.base.setAttribute("aria-hidden", "true");
    this.marks.setAttribute("aria-hidden", "true");
    this.stage.append(this.base, this.marks);
    this.sheet.append(this.stage, this.voice);
    host.replaceChildren(this.sheet);
    this.watching = new ResizeObserver(() => this.later(true));
    this.watching.observe(host);
    this.listen();
  }

  /** Draw something; a new tree or focus sets the window anew. */
  show(scene: Scene): void {
    const before = this.scene;
    this.scene = scene;
    if (before?.tree !== scene.tree || before.focus !== scene.focus) {
      this.window = windowOf(scene.tree, scene.focus);
      this.hovered = -1;
      if (before?.tree !== scene.tree) this.walkedTo = -1;
      if (before !== null && before.tree === scene.tree) this.reveal(scene.focus);
    }
    const rows = this.rowCount();
    this.sheet.style.height = `${rows * ROW_PX}px`;
    if (before === null && scene.upward) this.host.scrollTop = rows * ROW_PX;
    this.say(this.walkedTo < 0 ? scene.focus : this.walkedTo);
    this.later(true);
  }

  /** Mark a node as the one that is walked to. */
  mark(node: number): void {
    if (this.walkedTo === node) return;
    this.walkedTo = node;
    if (node >= 0) this.say(node);
    this.later(false);
  }

  /** Call back once the next painting is on the canvas. */
  painted(then: () => void): void {
    this.paintedOnce = then;
  }

  destroy(): void {
    cancelAnimationFrame(this.frame);
    this.listening.abort();
    this.watching.disconnect();
    this.host.replaceChildren();
  }

  private listen(): void {
    const { signal } = this.listening;
    const { host } = this;
    host.addEventListener("scroll", () => this.later(true), { signal, passive: true });
    host.addEventListener("keydown", (event) => this.key(event), { signal });
    host.addEventListener("focus", () => this.later(false), { signal });
    host.addEventListener("blur", () => this.later(false), { signal });
    host.addEventListener("pointerdown", (event) => this.press(event), { signal });
    host.addEventListener("pointermove", (event) => this.move(event), { signal });
    host.addEventListener("pointerup", (event) => this.release(event), { signal });
    host.addEventListener(
      "pointercancel",
      () => {
        this.drag = null;
      },
      { signal },
    );
    host.addEventListener("pointerleave", () => this.point(-1, 0, 0), { signal });
    host.addEventListener("wheel", (event) => this.wheel(event), { signal, passive: false });
  }

  private press(event: PointerEvent): void {
    if (event.button === 0) this.drag = { x: event.clientX, from: this.window.from, moved: false };
  }

  private move(event: PointerEvent): void {
    const { drag } = this;
    if (drag !== null && event.pointerType !== "touch") {
      const distance = event.clientX - drag.x;
      if (drag.moved || Math.abs(distance) >= DRAG_FROM_PX) {
        drag.moved = true;
        this.pan(drag.from - distance / this.scale());
        return;
      }
    }
    this.point(this.nodeUnder(event), event.clientX, event.clientY);
  }

  private release(event: PointerEvent): void {
    const moved = this.drag?.moved ?? true;
    this.drag = null;
    if (moved) return;
    const node = this.nodeUnder(event);
    if (node < 0) return;
    this.walkedTo = node;
    this.say(node);
    // The picture first: what else the page does with the click can wait until it is on the screen.
    if (this.scene?.fromLevel === 0) this.window = windowOf(this.scene.tree, node);
    this.later(true);
    requestAnimationFrame(() =>
      setTimeout(() => {
        if (this.listening.signal.aborted) return;
        this.hearing.active(node);
        this.hearing.open(node);
      }),
    );
  }

  private wheel(event: WheelEvent): void {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : 0;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.zoom(Math.exp(event.deltaY * 0.004), event.clientX);
    } else if (sideways !== 0 && !this.wide()) {
      event.preventDefault();
      this.pan(this.window.from + sideways / this.scale());
    }
  }

  private key(event: KeyboardEvent): void {
    const { scene } = this;
    if (scene === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const next = this.step(scene, event.key);
    if (next !== null) {
      if (next >= 0) this.walk(next);
    } else if (event.key === "Enter" || event.key === " ") {
      if (this.walkedTo >= 0) this.hearing.open(this.walkedTo);
    } else if (event.key === "Escape") this.hearing.leave();
    else if (event.key === "+" || event.key === "=") this.zoom(0.7, null);
    else if (event.key === "-") this.zoom(1 / 0.7, null);
    else return;
    event.preventDefault();
  }

  /** Where a key leads from here: a node, -1 for nowhere, null when the key is not for walking. */
  private step(scene: Scene, key: string): number | null {
    const { tree } = scene;
    const here = this.walkedTo;
    const down = scene.upward ? "ArrowUp" : "ArrowDown";
    const up = scene.upward ? "ArrowDown" : "ArrowUp";
    if (![down, up, "ArrowLeft", "ArrowRight", "Home", "End"].includes(key)) return null;
    if (here < 0) return scene.focus === 0 ? firstShown(scene) : scene.focus;
    if (key === "Home") return scene.focus === 0 ? firstShown(scene) : scene.focus;
    if (key === "End") return deepest(tree, scene.focus);
    if (key === down) return widest(tree, here);
    if (key === up) return at(tree.level, here) > scene.fromLevel ? at(tree.parent, here) : -1;
    return neighbour(tree, here, key === "ArrowLeft" ? -1 : 1);
  }

  private walk(node: number): void {
    this.walkedTo = node;
    this.reveal(node);
    this.follow(node);
    this.say(node);
    this.hearing.active(node);
    this.later(true);
  }

  /** Scroll a node's row into sight. */
  private reveal(node: number): void {
    const top = this.rowOf(node) * ROW_PX;
    const { scrollTop, clientHeight } = this.host;
    if (top < scrollTop) this.host.scrollTop = Math.max(0, top - ROW_PX);
    else if (top + ROW_PX > scrollTop + clientHeight)
      this.host.scrollTop = top + 2 * ROW_PX - clientHeight;
  }

  /** Move the window so that the node is in it, no further than that takes. */
  private follow(node: number): void {
    const { scene } = this;
    if (scene === null) return;
    const from = at(scene.tree.x, node);
    const to = from + at(scene.tree.width, node);
    if (from < this.window.to && to > this.window.from) return;
    const span = this.window.to - this.window.from;
    this.pan((from + to) / 2 - span / 2);
  }

  private pan(from: number): void {
    const whole = this.whole();
    const span = this.window.to - this.window.from;
    const begin = Math.min(Math.max(from, 0), whole - span);
    this.window = { from: begin, to: begin + span };
    this.later(true);
  }

  private zoom(factor: number, clientX: number | null): void {
    const whole = this.whole();
    const old = this.window.to - this.window.from;
    const span = Math.min(whole, Math.max(whole * LEAST_SHARE, old * factor));
    const box = this.host.getBoundingClientRect();
    const share = clientX === null ? 0.5 : (clientX - box.left) / Math.max(1, box.width);
    const from = this.window.from + (old - span) * share;
    this.window = { from, to: from + span };
    this.pan(from);
  }

  private point(node: number, x: number, y: number): void {
    if (this.hovered !== node) {
      this.hovered = node;
      this.host.style.cursor = node >= 0 ? "pointer" : "default";
      this.later(false);
    }
    this.hearing.hover(node, x, y);
  }

  private nodeUnder(event: PointerEvent): number {
    const { scene } = this;
    if (scene === null) return -1;
    const box = this.base.getBoundingClientRect();
    const y = event.clientY - box.top + this.host.scrollTop;
    const value = this.window.from + (event.clientX - box.left) / this.scale();
    return nodeAt(scene.tree, this.levelOf(Math.floor(y / ROW_PX)), value);
  }

  private say(node: number): void {
    const { scene } = this;
    if (scene === null || node < 0 || node >= scene.tree.size) return;
    this.voice.textContent = scene.tell(node);
    this.voice.setAttribute("aria-level", String(at(scene.tree.level, node) + 1));
    this.voice.setAttribute("aria-selected", "true");
    this.voice.setAttribute("aria-expanded", String(childrenOf(scene.tree, node).length > 0));
  }

  private later(whole: boolean): void {
    this.stale ||= whole;
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    this.frame = 0;
    const { scene } = this;
    const width = this.host.clientWidth;
    const height = Math.min(this.host.clientHeight, this.rowCount() * ROW_PX);
    if (scene === null || width === 0 || height === 0) return;
    const ratio = window.devicePixelRatio || 1;
    if (this.stale) this.drawBase(scene, width, height, ratio);
    this.stale = false;
    this.drawMarks(scene, width, height, ratio);
    const then = this.paintedOnce;
    this.paintedOnce = null;
    then?.();
  }

  private drawBase(scene: Scene, width: number, height: number, ratio: number): void {
    const context = sized(this.base, width, height, ratio);
    this.stage.style.height = `${height}px`;
    const measures = this.measures(ratio);
    const firstRow = Math.floor(this.host.scrollTop / ROW_PX);
    const picture = rasterise(
      scene.tree,
      this.window,
      {
        width: this.base.width,
        rows: Math.ceil(height / ROW_PX) + 1,
        levelOf: (row) => this.levelOf(firstRow + row),
        labelFrom: LABEL_FROM_PX * ratio,
        gap: Math.max(1, Math.floor(ratio)),
      },
      scene.colourOf,
    );
    const image = context.createImageData(this.base.width, this.base.height);
    const pixels = new Uint32Array(image.data.buffer);
    spread(picture, this.base.width, pixels, this.base.height, measures);
    context.putImageData(image, 0, 0);
    const font = `${FONT_PX * ratio}px ${getComputedStyle(this.host).fontFamily}`;
    context.font = font;
    if (this.fitting?.font !== font)
      this.fitting = { font, fitting: new Fitting((text) => context.measureText(text).width) };
    const faded = scene.theme === "light" ? "#5b6470" : "#b4bcc8";
    const inks = { ink: INK, faded };
    write(context, picture, measures, this.fitting.fitting, scene.nameOf, scene.isFaded, inks);
  }

  private drawMarks(scene: Scene, width: number, height: number, ratio: number): void {
    const context = sized(this.marks, width, height, ratio);
    // Only what was drawn goes: clearing all of a screen for each move of the pointer costs frames.
    for (const [left, top, wide, high] of this.marked) context.clearRect(left, top, wide, high);
    this.marked = [];
    const strong = scene.theme === "light" ? "#10131a" : "#ffffff";
    this.outline(context, scene, this.hovered, ratio, strong, 1);
    if (this.host.matches(":focus-visible") || this.walkedTo > 0)
      this.outline(context, scene, this.walkedTo, ratio, strong, 2);
  }

  private outline(
    context: CanvasRenderingContext2D,
    scene: Scene,
    node: number,
    ratio: number,
    colour: string,
    thick: number,
  ): void {
    if (node < 0 || node >= scene.tree.size) return;
    const scale = this.scale() * ratio;
    const left = Math.max(0, (at(scene.tree.x, node) - this.window.from) * scale);
    const right = Math.min(
      this.marks.width,
      (at(scene.tree.x, node) + at(scene.tree.width, node) - this.window.from) * scale,
    );
    const top = (this.rowOf(node) * ROW_PX - this.host.scrollTop) * ratio;
    const line = thick * ratio;
    context.strokeStyle = colour;
    context.lineWidth = line;
    if (right < left) return;
    const wide = Math.max(line, right - left - line);
    context.strokeRect(left + line / 2, top + line / 2, wide, ROW_PX * ratio - line);
    this.marked.push([left - line, top - line, wide + 4 * line, ROW_PX * ratio + 2 * line]);
  }

  private measures(ratio: number): Measures {
    const rowHeight = Math.round(ROW_PX * ratio);
    const offset = -Math.round((this.host.scrollTop % ROW_PX) * ratio);
    return { ratio, rowHeight, offset };
  }

  private rowCount(): number {
    const { scene } = this;
    return scene === null ? 0 : scene.tree.shownLevels - scene.fromLevel;
  }

  private rowOf(node: number): number {
    const { scene } = this;
    if (scene === null) return 0;
    const row = at(scene.tree.level, node) - scene.fromLevel;
    return scene.upward ? this.rowCount() - 1 - row : row;
  }

  private levelOf(row: number): number {
    const { scene } = this;
    if (scene === null || row < 0 || row >= this.rowCount()) return -1;
    return (scene.upward ? this.rowCount() - 1 - row : row) + scene.fromLevel;
  }

  private scale(): number {
    return this.host.clientWidth / Math.max(Number.MIN_VALUE, this.window.to - this.window.from);
  }

  private whole(): number {
    return this.scene === null ? 1 : at(this.scene.tree.width, 0);
  }

  private wide(): boolean {
    return this.window.to - this.window.from >= this.whole();
  }
}

function windowOf(tree: Tree, focus: number): Window {
  const from = at(tree.x, focus);
  const width = at(tree.width, focus);
  return width > 0 ? { from, to: from + width } : { from: 0, to: at(tree.width, 0) };
}

function firstShown(scene: Scene): number {
  return scene.fromLevel === 0 ? 0 : widest(scene.tree, 0);
}

function widest(tree: Tree, node: number): number {
  let best = -1;
  for (const child of childrenOf(tree, node))
    if (at(tree.width, child) > (best < 0 ? 0 : at(tree.width, best))) best = child;
  return best;
}

function deepest(tree: Tree, from: number): number {
  let here = from;
  for (let below = widest(tree, here); below >= 0; below = widest(tree, here)) here = below;
  return here;
}

function sized(
  canvas: HTMLCanvasElement,
  width: number,
  height: number,
  ratio: number,
): CanvasRenderingContext2D {
  const wide = Math.round(width * ratio);
  const high = Math.round(height * ratio);
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  return canvas.getContext("2d") as CanvasRenderingContext2D;
}
