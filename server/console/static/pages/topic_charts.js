// The rates of a topic and the backlogs of its subscriptions, once a second, from the topic's stream of events.

import { Chart, useSeries } from "../parts/charts.js";
import * as format from "../parts/format_rules.js";
import { useStream } from "../parts/event_stream.js";
import { html, useRef, useState } from "../parts/library.js";
import { Fault, HowTo, Panel, topicWord } from "../parts/panels.js";
import { topicPath } from "../parts/rest_calls.js";

const RATES = [
  { name: "In, msg/s", colour: "accent" },
  { name: "Out, msg/s", colour: "second" },
];
// As many subscriptions as there are colours are drawn: those that the topic has when its page is opened.
const BACKLOG_COLOURS = ["accent", "second", "third", "good", "warn", "bad"];

// Returns {rates, backlogs, names, live, error, path}: two series, the subscriptions of the second one, the newest event,
// and the stream's last fault.
export function useTopicStream(topic) {
  const path = topicPath(topic, "live");
  const rates = useSeries(path);
  const backlogs = useSeries(path);
  const names = useRef([]);
  const [live, setLive] = useState(null);
  const error = useStream(path, (event, value) => {
    if (event !== "topic") return;
    const subscriptions = value.subscriptions ?? {};
    if (names.current.length === 0) names.current = Object.keys(subscriptions).slice(0, BACKLOG_COLOURS.length);
    if (value.msgRateIn !== null) rates.add(value.time, [value.msgRateIn, value.msgRateOut]);
    backlogs.add(value.time, names.current.map((name) => subscriptions[name]?.msgBacklog ?? null));
    setLive(value);
  });
  return { rates, backlogs, names: names.current, live, error, path };
}

export function TopicCharts({ topic, stream }) {
  const { rates, backlogs, names, live, error, path } = stream;
  const howTo = html`<${HowTo} calls=${[`GET ${path}`]} commands=${[`magnetar admin topics stats ${topicWord(topic)}`]} />`;
  const lines = names.map((name, index) => ({ name, colour: BACKLOG_COLOURS[index] }));
  return html`
    <${Panel} title="Messages a second" name="rates">
      <${Fault} error=${error} />
      ${live === null && !error && html`<p class="waiting">The first point comes within a second…</p>`}
      ${live !== null && html`<${Chart} series=${rates} lines=${RATES} show=${format.rate} label="Messages in and out a second" />`}
      ${howTo}
    </${Panel}>
    ${lines.length > 0 && html`<${Panel} title="Backlog of subscriptions" name="backlogs">
      <${Chart} series=${backlogs} lines=${lines} show=${format.count} least=${10} label="The backlog of each subscription" />
      ${howTo}
    </${Panel}>`}`;
}
