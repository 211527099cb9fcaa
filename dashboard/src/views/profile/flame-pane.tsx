/** The flame graph on the page: hands a scene to the chart, and shows what it points at. */

import { type ReactElement, useEffect, useId, useLayoutEffect, useMemo, useRef } from "react";
import { Chart, type Hearing, type Scene } from "../../flame/chart";
import { colourAll, fade } from "../../flame/colours";
import { plain } from "../../flame/text";
import { ALL, at, type Tree } from "../../flame/tree";
import { amount, count, percent } from "../../format";
import { useTheme } from "../../theme";
import type { Look } from "./look";

interface Props {
  readonly look: Look;
  readonly tree: Tree;
  readonly focus: number;
  readonly upward?: boolean;
  readonly fromLevel?: number;
  readonly label: string;
  readonly active: number;
  /** Colours of nodes, where these are not by function. */
  readonly pixels?: Uint32Array;
  /** What else a hover tells of a node. */
  readonly more?: (node: number) => string[];
  readonly open: (node: number) => void;
  readonly walk: (node: number) => void;
  readonly leave: () => void;
}

export function FlamePane(props: Props): ReactElement {
  const { look, tree, focus, label, upward = false, fromLevel = 0, active, pixels } = props;
  const theme = useTheme();
  const host = useRef<HTMLDivElement>(null);
  const tip = useRef<HTMLDivElement>(null);
  const chart = useRef<Chart | null>(null);
  const heard = useRef(props);
  heard.current = props;
  const id = useId();
  const { functions } = look.profile;

  const colours = useMemo(
    () => colourAll(functions, look.colouring, theme),
    [functions, look.colouring, theme],
  );
  const bright = pixels ?? colours;
  const faded = useMemo(() => fade(bright, theme), [bright, theme]);

  useLayoutEffect(() => {
    if (host.current === null) return;
    const hearing: Hearing = {
      hover: (node, x, y) => {
        if (tip.current !== null) showTip(tip.current, heard.current, node, x, y);
      },
      active: (node) => heard.current.walk(node),
      open: (node) => heard.current.open(node),
      leave: () => heard.current.leave(),
    };
    const made = new Chart(host.current, hearing, { id, label });
    made.painted(() => performance.mark("isoprof:painted"));
    chart.current = made;
    return () => {
      made.destroy();
      chart.current = null;
    };
  }, [id, label]);

  const scene = useMemo((): Scene => {
    const searching = look.text.trim() !== "" && look.found.wrong === "";
    const { matches } = look.found;
    const isFaded = (node: number): boolean =>
      node === 0 ? searching : searching && at(matches, at(tree.fn, node)) === 0;
    return {
      tree,
      focus,
      upward,
      fromLevel,
      theme,
      isFaded,
      colourOf: (node) =>
        at(isFaded(node) ? faded : bright, pixels === undefined ? at(tree.fn, node) + 1 : node),
      nameOf: (node) => nameOf(look, tree, node),
      tell: (node) => tell(look, tree, node),
    };
  }, [look, tree, focus, upward, fromLevel, theme, bright, faded, pixels]);

  useLayoutEffect(() => chart.current?.show(scene), [scene]);
  useEffect(() => chart.current?.mark(active), [active]);

  return (
    <div className="flame-pane">
      <div ref={host} />
      <div ref={tip} className="tip" hidden />
    </div>
  );
}

/** What a node is called: the root by what it is the whole of. */
export function nameOf(look: Look, tree: Tree, node: number): string {
  const fn = at(tree.fn, node);
  return fn === ALL ? "all" : (look.profile.functions.name[fn] ?? "");
}

/** `file:line`, or what is known of it. */
export function placeOf(look: Look, fn: number): string {
  const { file, line } = look.profile.functions;
  const first = at(line, fn);
  return (file[fn] ?? "") + (file[fn] !== "" && first > 0 ? `:${first}` : "");
}

/** One sentence for those who hear the page. */
function tell(look: Look, tree: Tree, node: number): string {
  const { unit, total } = look.profile;
  const fn = at(tree.fn, node);
  const place = fn === ALL ? "" : `, ${placeOf(look, fn)}`;
  const whole = at(tree.total, node);
  return plain(
    `${nameOf(look, tree, node)}${place}: total ${amount(whole, unit)}, ${percent(whole, total)}, ` +
      `self ${amount(at(tree.self, node), unit)}`,
  );
}

function showTip(tip: HTMLElement, props: Props, node: number, x: number, y: number): void {
  tip.hidden = node < 0;
  if (node < 0) return;
  const { look, tree } = props;
  if (tip.dataset["node"] !== String(node) || tip.childElementCount === 0) {
    tip.dataset["node"] = String(node);
    const more = (props.more?.(node) ?? []).map((text) => line("tip-value", text));
    tip.replaceChildren(...lines(look, tree, node), ...more);
    tip.dataset["wide"] = String(tip.offsetWidth);
    tip.dataset["high"] = String(tip.offsetHeight);
  }
  // Measured once per frame pointed at, and moved without a new layout.
  const wide = Number(tip.dataset["wide"]);
  const high = Number(tip.dataset["high"]);
  const left = Math.max(8, Math.min(x + 14, window.innerWidth - wide - 8));
  const below = y + 18 + high < window.innerHeight;
  const top = below ? y + 18 : Math.max(8, y - high - 10);
  tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
}

/** Everything a hover tells. Names are set as text, isolated: whatever they hold stays in there. */
function lines(look: Look, tree: Tree, node: number): HTMLElement[] {
  const { unit, total, functions, samplesType } = look.profile;
  const fn = at(tree.fn, node);
  const found = [line("tip-name", plain(nameOf(look, tree, node)))];
  if (fn !== ALL) {
    const place = placeOf(look, fn);
    if (place !== "") found.push(line("tip-place", plain(place)));
    const generated = functions.generated[fn] ?? "";
    if (generated !== "" && generated.includes(":") && !generated.startsWith(place))
      found.push(line("tip-place", `generated: ${plain(generated)}`));
  }
  const whole = at(tree.total, node);
  const own = at(tree.self, node);
  const ofWhole = `${amount(whole, unit)}, ${percent(whole, total)} of the profile`;
  found.push(line("tip-value", `Total ${ofWhole}`));
  found.push(line("tip-value", `Self ${amount(own, unit)}, ${percent(own, total)}`));
  if (samplesType !== "" && node > 0)
    found.push(line("tip-value", `${count(at(tree.samples, node))} ${samplesName(samplesType)}`));
  return found;
}

/** What its counts count, as a word. */
export function samplesName(type: string): string {
  return type === "alloc_objects" || type === "inuse_objects" ? "objects" : "samples";
}

function line(className: string, text: string): HTMLElement {
  const element = document.createElement("bdi");
  element.className = className;
  element.textContent = text;
  return element;
}
