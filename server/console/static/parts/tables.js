// Tables that sort and, when they are long, draw only the rows that can be seen, so that ten thousand rows stay fluid.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./library.js";
import { sortedRows } from "./table_rules.js";

const ROW_PIXELS = 30;
// Shorter tables are drawn whole, as part of the page; longer ones scroll inside a frame of their own.
const WHOLE_ROWS_MAX = 60;
const SPARE_ROWS = 12;

// columns: [{key, title, value(row), show(row)?, isNumber?, isWide?}]. `value` is what sorts, `show` what is drawn.
// `rowKey(row)` names a row. `firstSort` is [key, "ascending" | "descending"].
export function Table({ name, label, columns, rows, rowKey, firstSort, empty = "Nothing is here." }) {
  const [sort, setSort] = useState(firstSort ?? null);
  const sorted = useMemo(() => sortedRows(rows, columns, sort), [rows, columns, sort]);
  if (rows.length === 0) return html`<p class="empty" data-table=${name}>${empty}</p>`;
  const parts = { name, label, columns, rows: sorted, rowKey, sort, setSort };
  return rows.length > WHOLE_ROWS_MAX ? html`<${WindowedTable} ...${parts} />` : html`<${WholeTable} ...${parts} />`;
}

function WholeTable({ name, label, columns, rows, rowKey, sort, setSort }) {
  return html`<div class="table-frame" tabindex="0" role="group" aria-label=${label}>
    <table data-table=${name} data-rows=${rows.length}>
      <${Head} columns=${columns} sort=${sort} setSort=${setSort} />
      <tbody>
        ${rows.map((row) => html`<${Row} key=${rowKey(row)} id=${rowKey(row)} columns=${columns} row=${row} />`)}
      </tbody>
    </table>
  </div>`;
}

function WindowedTable({ name, label, columns, rows, rowKey, sort, setSort }) {
  const frame = useRef(null);
  const [view, setView] = useState({ first: 0, shown: 60 });
  useLayoutEffect(() => {
    const element = frame.current;
    const look = () => {
      const first = Math.max(0, Math.floor(element.scrollTop / ROW_PIXELS) - SPARE_ROWS);
      const shown = Math.ceil(element.clientHeight / ROW_PIXELS) + 2 * SPARE_ROWS;
      setView((old) => (old.first === first && old.shown === shown ? old : { first, shown }));
    };
    const watch = new ResizeObserver(look);
    watch.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      watch.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);
  const first = Math.min(view.first, Math.max(0, rows.length - view.shown));
  const seen = rows.slice(first, first + view.shown);
  const below = rows.length - first - seen.length;
  return html`<div class="table-frame windowed" ref=${frame} tabindex="0" role="group" aria-label=${label}>
    <table data-table=${name} data-rows=${rows.length} aria-rowcount=${rows.length + 1}>
      <${Head} columns=${columns} sort=${sort} setSort=${setSort} />
      <tbody>
        <${Gap} rows=${first} columns=${columns} />
        ${seen.map(
          (row, index) =>
            html`<${Row}
              key=${rowKey(row)}
              id=${rowKey(row)}
              columns=${columns}
              row=${row}
              number=${first + index + 2}
            />`,
        )}
        <${Gap} rows=${below} columns=${columns} />
      </tbody>
    </table>
  </div>`;
}

// An empty row as high as the rows that are not drawn.
function Gap({ rows, columns }) {
  if (rows === 0) return null;
  return html`<tr class="gap" aria-hidden="true">
    <td colspan=${columns.length} style=${{ height: `${rows * ROW_PIXELS}px` }}></td>
  </tr>`;
}

function Row({ columns, row, id, number }) {
  return html`<tr data-row=${id} aria-rowindex=${number}>
    ${columns.map((column) => {
      const shown = column.show ? column.show(row) : column.value(row);
      return html`<td key=${column.key} class=${classOf(column)} data-column=${column.key}>${shown}</td>`;
    })}
  </tr>`;
}

function Head({ columns, sort, setSort }) {
  return html`<thead>
    <tr>
      ${columns.map((column) => {
        const direction = sort?.[0] === column.key ? sort[1] : "none";
        const turned =
          direction === "descending" || (direction === "none" && !column.isNumber) ? "ascending" : "descending";
        const mark = { ascending: "↑", descending: "↓", none: "" }[direction];
        return html`<th key=${column.key} scope="col" class=${classOf(column)} aria-sort=${direction}>
          ${
            column.isUnsorted
              ? column.title
              : html`<button type="button" onClick=${() => setSort([column.key, turned])}>
                  ${column.title}<span aria-hidden="true">${mark}</span>
                </button>`
          }
        </th>`;
      })}
    </tr>
  </thead>`;
}

function classOf(column) {
  return [column.isNumber && "number", column.isWide && "wide"].filter(Boolean).join(" ") || undefined;
}

// A field that filters a table. The text reaches `onText` a moment after the last key, so that typing stays quick.
export function SearchField({ label, onText, placeholder }) {
  const [text, setText] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => onText(text), 120);
    return () => clearTimeout(timer);
  }, [text]);
  return html`<input
    type="search"
    class="search"
    aria-label=${label}
    placeholder=${placeholder ?? label}
    value=${text}
    onInput=${(event) => setText(event.target.value)}
  />`;
}
