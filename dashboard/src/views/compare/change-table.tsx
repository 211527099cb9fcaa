/** Functions by how they changed. */

import { type ReactElement, useMemo } from "react";
import {
  type ChangeColumn,
  type ChangeRow,
  type Comparison,
  changeValue,
} from "../../flame/comparison";
import { compareText } from "../../flame/order";
import { sumsOf } from "../../flame/sums";
import { at } from "../../flame/tree";
import { amount } from "../../format";
import { type Here, Sortable, VirtualRows } from "../../parts/virtual-rows";
import { setQuery, useQuery } from "../../routing";
import { FunctionName } from "../profile/function-table";
import type { Look } from "../profile/look";

const COLUMNS: readonly ChangeColumn[] = ["name", "before", "after", "change", "total"];

export function ChangeTable(props: { look: Look; comparison: Comparison }): ReactElement {
  const { look, comparison } = props;
  const [sortText] = useQuery("sort");
  const [dir] = useQuery("dir");
  const sort = COLUMNS.find((one) => one === sortText) ?? "change";
  const descending = dir === "" ? sort !== "name" : dir === "desc";
  const rows = useMemo(() => rowsOf(comparison), [comparison]);
  const shown = useMemo(() => {
    const searching = look.text.trim() !== "" && look.found.wrong === "";
    const kept = rows.filter((row) => !searching || at(look.found.matches, row.fn) === 1);
    return ordered(kept, comparison, sort, descending);
  }, [rows, comparison, look.text, look.found, sort, descending]);
  if (shown.length === 0) return <p className="table-none">No function fits the search.</p>;
  const order = { sort, descending, set: setSort };
  return (
    <VirtualRows
      count={shown.length}
      columns={5}
      label="Functions by change"
      shown={look.fn < 0 ? -1 : shown.findIndex((row) => row.fn === look.fn)}
      head={
        <>
          <Sortable name="name" title="Function" {...order} />
          <Sortable name="before" title="Self before" {...order} />
          <Sortable name="after" title="Self after" {...order} />
          <Sortable name="change" title="Change of self" {...order} />
          <Sortable name="total" title="Change of total" {...order} />
        </>
      }
      row={(index, here) => {
        const row = shown[index] as ChangeRow;
        const { unit } = comparison.after;
        return <Row key={row.fn} look={look} row={row} unit={unit} index={index} here={here} />;
      }}
    />
  );
}

function setSort(name: string, descending: boolean): void {
  const usual = name !== "name";
  const dir = descending === usual ? "" : descending ? "desc" : "asc";
  setQuery({ sort: name === "change" ? "" : name, dir }, "replace");
}

interface RowProps {
  readonly look: Look;
  readonly row: ChangeRow;
  readonly unit: string;
  readonly index: number;
  readonly here: Here;
}

function Row({ look, row, unit, index, here }: RowProps): ReactElement {
  return (
    <tr
      data-index={index}
      aria-rowindex={index + 2}
      className={look.fn === row.fn ? "chosen" : undefined}
    >
      <FunctionName look={look} fn={row.fn} here={here} />
      <td className="number">{row.status === "new" ? "–" : amount(row.selfBefore, unit)}</td>
      <td className="number">{row.status === "gone" ? "–" : amount(row.selfAfter, unit)}</td>
      <td className="number">
        <Change before={row.selfBefore} after={row.selfAfter} unit={unit} />
        {row.status === "same" || row.status === "changed" ? null : (
          <small className={`status-${row.status}`}>{row.status}</small>
        )}
      </td>
      <td className="number">
        <Change before={row.totalBefore} after={row.totalAfter} unit={unit} />
      </td>
    </tr>
  );
}

function Change(props: { before: number; after: number; unit: string }): ReactElement {
  const by = props.after - props.before;
  const tone = by > 0 ? "more" : by < 0 ? "less" : "same";
  return (
    <span className={`change-${tone}`}>
      {by > 0 ? "+" : ""}
      {amount(by, props.unit)}
    </span>
  );
}

function rowsOf({ before, after, status }: Comparison): ChangeRow[] {
  const { count } = after.functions;
  const was = sumsOf(before.tree, count);
  const is = sumsOf(after.tree, count);
  const rows: ChangeRow[] = [];
  for (let fn = 0; fn < count; fn++)
    rows.push({
      fn,
      status: status[fn] ?? "same",
      selfBefore: at(was.self, fn),
      selfAfter: at(is.self, fn),
      totalBefore: at(was.total, fn),
      totalAfter: at(is.total, fn),
    });
  return rows;
}

function ordered(
  rows: ChangeRow[],
  comparison: Comparison,
  sort: ChangeColumn,
  descending: boolean,
): ChangeRow[] {
  const { name } = comparison.after.functions;
  const byName = (a: ChangeRow, b: ChangeRow): number =>
    compareText(name[a.fn] ?? "", name[b.fn] ?? "");
  const sign = descending ? -1 : 1;
  return rows.sort((a, b) =>
    sort === "name"
      ? sign * byName(a, b)
      : sign * (changeValue(a, sort) - changeValue(b, sort)) || byName(a, b),
  );
}
