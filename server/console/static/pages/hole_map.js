// Draws the backlog of a subscription as cells: what is acknowledged, what lies in holes, what was read, what was not.

import { STATES, TopicLine, backlogOf, cellsOf, cellsOfMap, stateOf } from "../parts/backlog_map_rules.js";
import * as format from "../parts/format_rules.js";
import { html, useLayoutEffect, useMemo, useRef, useState } from "../parts/library.js";
import { Fault, HowTo } from "../parts/panels.js";
import { FRESH_MS, useCall } from "../parts/polling.js";
import { topicPath, withQuery } from "../parts/rest_calls.js";
import { Table } from "../parts/tables.js";

const CELL_PIXELS = 11;
const GAP_PIXELS = 2;
const ROWS_MAX = 24;
const HOLES_SHOWN_MAX = 500;
const NO_CELLS = { cells: [], entriesPerCell: 1, unread: 0 };

const WORDS = {
  hole: ["warn", "in a hole: later entries are acknowledged, this is not"],
  read: ["second", "read: with a consumer, delayed, or waiting to be sent"],
  unread: ["line", "not read yet"],
  acked: ["accent", "acknowledged"],
};

export function HoleMap({ topic, stats, name }) {
  const cursor = stats.cursors[name];
  const line = useMemo(() => new TopicLine(stats), [stats]);
  const backlog = useMemo(() => backlogOf(line, cursor), [line, cursor]);
  const canvas = useRef(null);
  const [width, setWidth] = useState(0);
  const [pointed, setPointed] = useState(null);
  const columns = Math.max(1, Math.floor(width / (CELL_PIXELS + GAP_PIXELS)));
  // Where there are too many ranges for a list, the server makes the cells.
  const mapPath = withQuery(topicPath(topic, "subscription", name, "ackMap"), { cells: columns * ROWS_MAX });
  const map = useCall(backlog.isCut && width > 0 ? mapPath : null, { every: FRESH_MS });
  const { cells, entriesPerCell, unread } = useMemo(() => {
    if (!backlog.isCut) return cellsOf(backlog, columns * ROWS_MAX);
    return map.value === undefined ? NO_CELLS : cellsOfMap(line, map.value);
  }, [backlog, columns, map.value]);
  const rows = Math.ceil(cells.length / columns);
  useLayoutEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    watch.observe(canvas.current.parentElement);
    return () => watch.disconnect();
  }, []);
  useLayoutEffect(() => {
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const paint = () => width > 0 && draw(canvas.current, cells, columns, rows, width);
    paint();
    scheme.addEventListener("change", paint);
    return () => scheme.removeEventListener("change", paint);
  }, [cells, columns, rows, width]);
  const point = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const step = CELL_PIXELS + GAP_PIXELS;
    const column = Math.floor((event.clientX - box.left) / step);
    const index = Math.floor((event.clientY - box.top) / step) * columns + column;
    setPointed(column < columns ? (cells[index] ?? null) : null);
  };
  const said = backlog.isCut ? summaryOfMap(map.value) : summaryOf(backlog);
  return html`<p class="hint" data-map="summary">
      ${said}.${entriesPerCell > 1 && ` A cell stands for ${format.count(entriesPerCell)} entries.`}
    </p>
    <div hidden=${cells.length === 0 && !backlog.isCut}>
      <canvas
        class="map"
        ref=${canvas}
        role="img"
        aria-label=${said}
        data-map="holes"
        data-cells=${cells.length}
        onMouseMove=${point}
        onMouseLeave=${() => setPointed(null)}
      ></canvas>
    </div>
    <${Fault} error=${map.error} />
    <p class="map-note" aria-hidden="true">${pointed && sentenceOf(pointed, line)}</p>
    ${unread > 0 && html`<p class="hint" data-map="unread">${unreadOf(unread, cells.length > 0)}</p>`}
    <div class="legend">
      ${STATES.map((state) => html`<span key=${state}><i class=${`swatch ${WORDS[state][0]}`}></i>${WORDS[state][1]}</span>`)}
    </div>
    ${backlog.holes.length > 0 && html`<${Holes} line=${line} holes=${backlog.holes} isCut=${backlog.isCut} />`}
    ${backlog.isCut && html`<${HowTo} calls=${[`GET ${mapPath}`]} />`}`;
}

function summaryOf(backlog) {
  const inHoles = backlog.holes.reduce((sum, [first, last]) => sum + last - first, 0);
  const all = format.plural(backlog.end - backlog.begin, "entry", "entries");
  const holes = `${format.count(inHoles)} of them in ${format.plural(backlog.holes.length, "hole")}`;
  return `${all} behind the mark-delete position, ${inHoles === 0 ? "none of them in a hole" : holes}`;
}

function summaryOfMap(map) {
  if (map === undefined) return "The map is being made";
  const all = format.plural(map.entries, "entry", "entries");
  const ranges = format.plural(map.ackedRanges, "acknowledged range");
  return `${all} behind the mark-delete position, ${format.count(map.entriesInHoles)} of them in holes before ${ranges}`;
}

function unreadOf(unread, isAfterMap) {
  const beginning = isAfterMap ? "Behind that, " : "";
  return `${beginning}${format.plural(unread, "entry", "entries")} ${unread === 1 ? "is" : "are"} not read yet.`;
}

function draw(canvas, cells, columns, rows, width) {
  const scale = window.devicePixelRatio || 1;
  const height = Math.max(1, rows) * (CELL_PIXELS + GAP_PIXELS);
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.height = `${height}px`;
  const style = getComputedStyle(canvas);
  const colours = Object.fromEntries(STATES.map((state) => [state, style.getPropertyValue(`--${WORDS[state][0]}`)]));
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  cells.forEach((cell, index) => {
    const x = (index % columns) * (CELL_PIXELS + GAP_PIXELS);
    const y = Math.floor(index / columns) * (CELL_PIXELS + GAP_PIXELS);
    context.fillStyle = colours[stateOf(cell)];
    context.fillRect(x, y, CELL_PIXELS, CELL_PIXELS);
  });
}

function sentenceOf(cell, line) {
  const parts = STATES.filter((state) => cell.counts[state] > 0).map(
    (state) => `${format.count(cell.counts[state])} ${WORDS[state][1].split(":")[0]}`,
  );
  const end = cell.last - 1 > cell.first ? ` to ${line.at(cell.last - 1)}` : "";
  return `${line.at(cell.first)}${end}: ${parts.join(", ")}`;
}

const HOLE_COLUMNS = [
  { key: "first", title: "First entry", value: (row) => row.place, show: (row) => row.first },
  { key: "last", title: "Last entry", value: (row) => row.place, show: (row) => row.last },
  {
    key: "entries",
    title: "Entries",
    isNumber: true,
    value: (row) => row.entries,
    show: (row) => format.count(row.entries),
  },
];

function Holes({ line, holes, isCut }) {
  const rows = holes
    .slice(0, HOLES_SHOWN_MAX)
    .map(([first, last]) => ({ place: first, first: line.at(first), last: line.at(last - 1), entries: last - first }));
  return html`<details>
    <summary>
      ${isCut ? "Holes" : format.plural(holes.length, "hole")} as a
      list${isCut || holes.length > rows.length ? `, the first ${format.count(rows.length)} of them` : ""}
    </summary>
    <${Table}
      name="holes"
      label="Holes"
      columns=${HOLE_COLUMNS}
      rows=${rows}
      rowKey=${(row) => row.first}
      firstSort=${["first", "ascending"]}
    />
  </details>`;
}
