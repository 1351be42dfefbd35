// Lines over the last minutes, drawn by uPlot. A chart keeps a bounded number of points, so a page that is open for a
// day holds no more than one that was just opened.

import { html, useEffect, useMemo, useRef } from "./library.js";

const POINTS_MAX = 300;
const HEIGHT_PIXELS = 150;
// A chart is at least this wide: over less time, several marks of the axis would fall into one second.
const SECONDS_MIN = 30;

// The newest points of several lines: add(timeMs, [values]) and table(), which is what uPlot draws.
class Series {
  #rows = [];
  #listeners = new Set();

  add(timeMs, values) {
    this.#rows.push([timeMs / 1000, ...values]);
    if (this.#rows.length > POINTS_MAX) this.#rows.shift();
    for (const listener of this.#listeners) listener();
  }

  get size() {
    return this.#rows.length;
  }

  table(lines) {
    return Array.from({ length: lines + 1 }, (_, column) => this.#rows.map((row) => row[column] ?? null));
  }

  subscribe(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

export function useSeries(key = "") {
  return useMemo(() => new Series(), [key]);
}

// lines: [{name, colour: a custom property of the styles}]; `show` writes a value. The axis goes up to `least` at least,
// so that noise does not look like a mountain.
export function Chart({ series, lines, show, label, least = 1 }) {
  const frame = useRef(null);
  useEffect(() => drawn(frame.current, series, lines, { show, least }), [series]);
  return html`<figure class="chart">
    <div class="chart-frame" ref=${frame} role="img" aria-label=${label}></div>
    <figcaption>
      ${lines.map((line) => html`<span key=${line.name}><i class=${`swatch ${line.colour}`}></i>${line.name}</span>`)}
    </figcaption>
  </figure>`;
}

// Draws until the returned function is called: again for each point, for another width, and for other colours.
function drawn(element, series, lines, scale) {
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  let plot = null;
  const make = () => {
    plot?.destroy();
    plot = new window.uPlot(optionsOf(element, lines, scale), series.table(lines.length), element);
  };
  const resize = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT_PIXELS }));
  make();
  resize.observe(element);
  scheme.addEventListener("change", make);
  const stop = series.subscribe(() => plot.setData(series.table(lines.length)));
  return () => {
    stop();
    scheme.removeEventListener("change", make);
    resize.disconnect();
    plot.destroy();
  };
}

function optionsOf(element, lines, { show, least }) {
  const style = getComputedStyle(element);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const axis = {
    stroke: colour("muted"),
    font: `11px ${style.fontFamily}`,
    grid: { stroke: colour("line"), width: 1 },
    ticks: { show: false },
  };
  return {
    width: Math.max(element.clientWidth, 100),
    height: HEIGHT_PIXELS,
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { size: 5 } },
    scales: {
      x: { time: true, range: (plot) => timesOf(plot.data[0]) },
      y: { range: (_, low, high) => [0, Math.max(high ?? 0, least) * 1.1] },
    },
    axes: [
      { ...axis, size: 28, space: 70, values: (_, times) => times.map(clockTime) },
      { ...axis, size: 66, space: 32, values: (_, values) => values.map(show) },
    ],
    series: [
      {},
      ...lines.map((line) => ({ label: line.name, stroke: colour(line.colour), width: 1.5, points: { show: false } })),
    ],
  };
}

// The beginning and the end of the axis for the times of all points. Of a single point, uPlot would make a day.
function timesOf(times) {
  const end = times.at(-1) ?? Date.now() / 1000;
  return [Math.min(times[0] ?? end, end - SECONDS_MIN), end];
}

// The time of day in UTC, as everywhere on the pages.
function clockTime(seconds) {
  return new Date(seconds * 1000).toISOString().slice(11, 19);
}
