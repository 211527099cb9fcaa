/** Functions as a table: what each costs itself and with all it calls. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type ReactElement, useEffect, useMemo, useRef, useState } from "react";
import { functionKey } from "../../flame/keys";
import { type Column, rowsOf } from "../../flame/order";
import { plain } from "../../flame/text";
import { at } from "../../flame/tree";
import { amount, count, percent } from "../../format";
import { setQuery } from "../../routing";
import { placeOf, samplesName } from "./flame-pane";
import type { Look } from "./look";

const ROW_PX = 44;

export function FunctionTable({ look }: { look: Look }): ReactElement {
  const { profile, sums, found, text, sort, descending, without } = look;
  const rows = useMemo(() => {
    const all = rowsOf(profile.functions, sums, without, sort, descending);
    return text.trim() === "" || found.wrong !== ""
      ? all
      : all.filter((fn) => at(found.matches, fn) === 1);
  }, [profile, sums, without, sort, descending, text, found]);
  const scroller = useRef<HTMLDivElement>(null);
  const [here, setHere] = useState(0);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 8,
    initialRect: { width: 600, height: 600 },
  });
  const items = virtual.getVirtualItems();
  const above = items[0]?.start ?? 0;
  const below = virtual.getTotalSize() - (items[items.length - 1]?.end ?? 0);

  // A function chosen elsewhere is brought into sight; the row one stands on stays where it is.
  const chosen = look.fn < 0 ? -1 : rows.indexOf(look.fn);
  useEffect(() => {
    if (chosen >= 0) virtual.scrollToIndex(chosen, { align: "auto" });
  }, [chosen, virtual]);

  const walk = (event: KeyboardEvent): void => {
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 0) / ROW_PX) - 2);
    const steps: Record<string, number> = {
      ArrowDown: here + 1,
      ArrowUp: here - 1,
      PageDown: here + page,
      PageUp: here - page,
      Home: 0,
      End: rows.length - 1,
    };
    const wanted = steps[event.key];
    if (wanted === undefined) return;
    event.preventDefault();
    const next = Math.min(rows.length - 1, Math.max(0, wanted));
    setHere(next);
    virtual.scrollToIndex(next);
    requestAnimationFrame(() =>
      scroller.current?.querySelector<HTMLElement>(`[data-index="${next}"] button`)?.focus(),
    );
  };

  const samples = samplesName(profile.samplesType);
  if (rows.length === 0)
    return (
      <p className="table-none">
        {text.trim() === "" ? "No function in this profile." : "No function fits the search."}
      </p>
    );
  return (
    <div className="table-scroll" ref={scroller}>
      <table className="functions" aria-rowcount={rows.length + 1} onKeyDown={walk}>
        <thead>
          <tr aria-rowindex={1}>
            <Sortable look={look} column="name" title="Function" />
            <Sortable look={look} column="self" title="Self" />
            <Sortable look={look} column="total" title="Total" />
            <th scope="col" className="number">
              Percent of profile
            </th>
            <Sortable
              look={look}
              column="samples"
              title={samples === "objects" ? "Objects" : "Samples"}
            />
          </tr>
        </thead>
        <tbody>
          {above > 0 ? (
            <tr aria-hidden="true">
              <td colSpan={5} style={{ height: above, padding: 0 }} />
            </tr>
          ) : null}
          {items.map((item) => {
            const fn = at(rows, item.index);
            return (
              <Row
                key={fn}
                look={look}
                fn={fn}
                index={item.index}
                tabbable={item.index === Math.min(here, rows.length - 1)}
                stand={() => setHere(item.index)}
              />
            );
          })}
          {below > 0 ? (
            <tr aria-hidden="true">
              <td colSpan={5} style={{ height: below, padding: 0 }} />
            </tr>
          ) : null}
        </tbody>
      </table>
    </div>
  );
}

interface SortableProps {
  readonly look: Look;
  readonly column: Column;
  readonly title: string;
}

function Sortable({ look, column, title }: SortableProps): ReactElement {
  const sorted = look.sort === column;
  const usual = column !== "name";
  const sort = (): void => {
    const descending = sorted ? !look.descending : usual;
    setQuery(
      { sort: column, dir: descending === usual ? "" : descending ? "desc" : "asc" },
      "replace",
    );
  };
  return (
    <th
      scope="col"
      className={column === "name" ? "name" : "number"}
      aria-sort={sorted ? (look.descending ? "descending" : "ascending") : "none"}
    >
      <button type="button" onClick={sort}>
        {title}
        <span aria-hidden="true">{sorted ? (look.descending ? " ▾" : " ▴") : ""}</span>
      </button>
    </th>
  );
}

interface RowProps {
  readonly look: Look;
  readonly fn: number;
  readonly index: number;
  readonly tabbable: boolean;
  readonly stand: () => void;
}

function Row({ look, fn, index, tabbable, stand }: RowProps): ReactElement {
  const { profile, sums } = look;
  const { unit, total } = profile;
  const own = at(sums.self, fn);
  const whole = at(sums.total, fn);
  const chosen = look.fn === fn;
  const choose = (): void =>
    setQuery({ fn: chosen ? "" : functionKey(look.hashes, fn) }, "replace");
  const place = placeOf(look, fn);
  return (
    <tr data-index={index} aria-rowindex={index + 2} className={chosen ? "chosen" : undefined}>
      <th scope="row" className="name">
        <button
          type="button"
          tabIndex={tabbable ? 0 : -1}
          aria-pressed={chosen}
          onFocus={stand}
          onClick={choose}
        >
          <bdi className="fn-name">{plain(profile.functions.name[fn] ?? "")}</bdi>
          <bdi className="fn-place">{plain(place) || "no source"}</bdi>
        </button>
      </th>
      <td className="number">{amount(own, unit)}</td>
      <td className="number">
        {amount(whole, unit)}
        <small>{percent(whole, total)}</small>
      </td>
      <td className="number share">
        {percent(own, total)}
        <Bar own={own} whole={whole} total={total} />
      </td>
      <td className="number">{count(at(sums.samples, fn))}</td>
    </tr>
  );
}

function Bar({ own, whole, total }: { own: number; whole: number; total: number }): ReactElement {
  const width = (value: number): string =>
    `${total > 0 ? Math.min(100, Math.max(0, (100 * value) / total)) : 0}%`;
  return (
    <span className="bar" aria-hidden="true">
      <span className="bar-total" style={{ width: width(whole) }} />
      <span className="bar-self" style={{ width: width(own) }} />
    </span>
  );
}
