/** A long table of which only the rows in sight are there, walked through by keyboard. */

import { useVirtualizer } from "@tanstack/react-virtual";
import {
  type KeyboardEvent,
  type ReactElement,
  type ReactNode,
  type RefObject,
  useEffect,
  useRef,
  useState,
} from "react";

export const ROW_PX = 44;

interface Props {
  readonly count: number;
  readonly columns: number;
  readonly label: string;
  readonly head: ReactNode;
  /** Index that is to be in sight; -1 for none. */
  readonly shown: number;
  readonly row: (index: number, here: Here) => ReactElement;
}

/** Whether Tab stops at a row, and how the row says that one stands on it. */
export interface Here {
  readonly tabbable: boolean;
  readonly stand: () => void;
}

export function VirtualRows({ count, columns, label, head, shown, row }: Props): ReactElement {
  const scroller = useRef<HTMLDivElement>(null);
  const [here, setHere] = useState(0);
  const virtual = useVirtualizer({
    count,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 8,
    initialRect: { width: 600, height: 600 },
  });
  const items = virtual.getVirtualItems();
  const above = items[0]?.start ?? 0;
  const below = virtual.getTotalSize() - (items[items.length - 1]?.end ?? 0);
  useEffect(() => {
    if (shown >= 0) virtual.scrollToIndex(shown, { align: "auto" });
  }, [shown, virtual]);

  const walk = (event: KeyboardEvent): void => {
    const next = destination(event.key, here, count, scroller);
    if (next === null) return;
    event.preventDefault();
    setHere(next);
    virtual.scrollToIndex(next);
    requestAnimationFrame(() =>
      scroller.current?.querySelector<HTMLElement>(`[data-index="${next}"] button`)?.focus(),
    );
  };

  return (
    <div className="table-scroll" ref={scroller}>
      <table className="functions" aria-label={label} aria-rowcount={count + 1} onKeyDown={walk}>
        <thead>
          <tr aria-rowindex={1}>{head}</tr>
        </thead>
        <tbody>
          <Space height={above} columns={columns} />
          {items.map(({ index }) =>
            row(index, {
              tabbable: index === Math.min(here, count - 1),
              stand: () => setHere(index),
            }),
          )}
          <Space height={below} columns={columns} />
        </tbody>
      </table>
    </div>
  );
}

function Space({ height, columns }: { height: number; columns: number }): ReactElement | null {
  if (height <= 0) return null;
  return (
    <tr aria-hidden="true">
      <td colSpan={columns} style={{ height, padding: 0 }} />
    </tr>
  );
}

function destination(
  key: string,
  here: number,
  count: number,
  scroller: RefObject<HTMLDivElement | null>,
): number | null {
  const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 0) / ROW_PX) - 2);
  const steps: Readonly<Record<string, number>> = {
    ArrowDown: here + 1,
    ArrowUp: here - 1,
    PageDown: here + page,
    PageUp: here - page,
    Home: 0,
    End: count - 1,
  };
  const wanted = steps[key];
  return wanted === undefined ? null : Math.min(count - 1, Math.max(0, wanted));
}

interface SortableProps {
  readonly name: string;
  readonly title: string;
  readonly sort: string;
  readonly descending: boolean;
  readonly set: (name: string, descending: boolean) => void;
}

/** A column's head, which sorts by it and says so. */
export function Sortable({ name, title, sort, descending, set }: SortableProps): ReactElement {
  const sorted = sort === name;
  return (
    <th
      scope="col"
      className={name === "name" ? "name" : "number"}
      aria-sort={sorted ? (descending ? "descending" : "ascending") : "none"}
    >
      <button type="button" onClick={() => set(name, sorted ? !descending : name !== "name")}>
        {title}
        <span aria-hidden="true">{sorted ? (descending ? " ▾" : " ▴") : ""}</span>
      </button>
    </th>
  );
}
