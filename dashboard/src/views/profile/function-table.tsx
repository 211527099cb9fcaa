/** Functions as a table: what each costs itself and with all it calls. */

import { type ReactElement, useMemo } from "react";
import { functionKey } from "../../flame/keys";
import { rowsOf } from "../../flame/order";
import { plain } from "../../flame/text";
import { at } from "../../flame/tree";
import { amount, count, percent } from "../../format";
import { type Here, Sortable, VirtualRows } from "../../parts/virtual-rows";
import { setQuery } from "../../routing";
import { placeOf, samplesName } from "./flame-pane";
import type { Look } from "./look";

export function FunctionTable({ look }: { look: Look }): ReactElement {
  const { profile, sums, found, text, sort, descending, without } = look;
  const rows = useMemo(() => {
    const all = rowsOf(profile.functions, sums, without, sort, descending);
    return text.trim() === "" || found.wrong !== ""
      ? all
      : all.filter((fn) => at(found.matches, fn) === 1);
  }, [profile, sums, without, sort, descending, text, found]);
  if (rows.length === 0)
    return (
      <p className="table-none">
        {text.trim() === "" ? "No function in this profile." : "No function fits the search."}
      </p>
    );
  const order = { sort, descending, set: setSort };
  const samples = samplesName(profile.samplesType) === "objects" ? "Objects" : "Samples";
  return (
    <VirtualRows
      count={rows.length}
      columns={5}
      label="Functions"
      shown={look.fn < 0 ? -1 : rows.indexOf(look.fn)}
      head={
        <>
          <Sortable name="name" title="Function" {...order} />
          <Sortable name="self" title="Self" {...order} />
          <Sortable name="total" title="Total" {...order} />
          <th scope="col" className="number">
            Percent of profile
          </th>
          <Sortable name="samples" title={samples} {...order} />
        </>
      }
      row={(index, here) => (
        <Row key={at(rows, index)} look={look} fn={at(rows, index)} index={index} here={here} />
      )}
    />
  );
}

function setSort(name: string, descending: boolean): void {
  const usual = name !== "name";
  const dir = descending === usual ? "" : descending ? "desc" : "asc";
  setQuery({ sort: name === "self" ? "" : name, dir }, "replace");
}

interface RowProps {
  readonly look: Look;
  readonly fn: number;
  readonly index: number;
  readonly here: Here;
}

function Row({ look, fn, index, here }: RowProps): ReactElement {
  const { profile, sums } = look;
  const { unit, total } = profile;
  const own = at(sums.self, fn);
  const whole = at(sums.total, fn);
  return (
    <tr
      data-index={index}
      aria-rowindex={index + 2}
      className={look.fn === fn ? "chosen" : undefined}
    >
      <FunctionName look={look} fn={fn} here={here} />
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

interface NameProps {
  readonly look: Look;
  readonly fn: number;
  readonly here: Here;
}

/** A function's name and place; pressing it chooses the function. */
export function FunctionName({ look, fn, here }: NameProps): ReactElement {
  const chosen = look.fn === fn;
  const name = plain(look.profile.functions.name[fn] ?? "");
  const place = plain(placeOf(look, fn));
  return (
    <th scope="row" className="name">
      <button
        type="button"
        tabIndex={here.tabbable ? 0 : -1}
        aria-pressed={chosen}
        title={`${name}\n${place}`}
        onFocus={here.stand}
        onClick={() => setQuery({ fn: chosen ? "" : functionKey(look.hashes, fn) }, "replace")}
      >
        <bdi className="fn-name">{name}</bdi>
        <bdi className="fn-place">{place || "no source"}</bdi>
      </button>
    </th>
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
