// Tables, and lists that are loaded page by page.
import type { ComponentChildren } from "preact";
import type { Pages } from "../api/load.ts";
import { AsOf } from "./marks.tsx";
import { Failed, Loads } from "./states.tsx";

export interface Column<R> {
  title: string;
  cell: (row: R, index: number) => ComponentChildren;
  class?: "number" | "wide" | "narrow";
}

/** Table shows rows. On a narrow screen each row is a block, and each value has its title beside it. */
export function Table<R>({ label, columns, rows, keyOf }: { label: string; columns: readonly Column<R>[]; rows: readonly R[]; keyOf: (row: R, index: number) => string | number }) {
  return (
    <table aria-label={label}>
      <thead><tr>{columns.map((column) => <th key={column.title} scope="col" class={column.class}>{column.title}</th>)}</tr></thead>
      <tbody>
        {rows.map((row, i) => (
          <tr key={keyOf(row, i)}>{columns.map((column) => <td key={column.title} class={column.class} data-title={column.title}>{column.cell(row, i)}</td>)}</tr>
        ))}
      </tbody>
    </table>
  );
}

/** Listed shows what is loaded of a list, and a button for the next page, which keeps the focus while it loads. `empty` says what an empty list means. `children` also learns whether more rows can follow. It says the tree size, unless `marked` is false because the view around it does. */
export function Listed<A extends { as_of: number }>({ of, empty, marked = true, children }: { of: Pages<A>; empty: ComponentChildren; marked?: boolean; children: (rows: Pages<A>["rows"], more: boolean) => ComponentChildren }) {
  return (
    <Loads of={of.first} lines={6}>
      {(first) => (
        <>
          {of.rows.length > 0 ? children(of.rows, of.more !== undefined || of.busy) : of.more || of.busy ? <p>Nothing was found so far, but not everything has been searched.</p> : empty}
          {of.problem && <Failed problem={of.problem} />}
          {(of.more ?? of.busy) && <p><button type="button" aria-disabled={of.busy} onClick={of.more}>Show more</button></p>}
          {of.busy && <p class="quiet" role="status">Loading more…</p>}
          {marked && <AsOf size={first.as_of} />}
        </>
      )}
    </Loads>
  );
}
