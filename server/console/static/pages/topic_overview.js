// The first tab of a topic: its rates over the last minutes, its subscriptions with what keeps them waiting, and its
// producers.

import * as format from "../parts/format_rules.js";
import { html } from "../parts/library.js";
import { Badge, Figure, HowTo, Loaded, Panel, topicWord } from "../parts/panels.js";
import { FRESH_MS, useCall } from "../parts/polling.js";
import { topicPath, withQuery } from "../parts/rest_calls.js";
import { topicLink } from "../parts/routes.js";
import { Table } from "../parts/tables.js";
import { TopicCharts, useTopicStream } from "./topic_charts.js";

export function TopicOverview({ topic }) {
  const path = withQuery(topicPath(topic, "stats"), { getEarliestTimeInBacklog: "true" });
  const stats = useCall(path, { every: FRESH_MS });
  const stream = useTopicStream(topic);
  return html`<${Loaded} from=${stats} topic=${topic}>${(value) =>
    html`<${Figures} stats=${{ ...value, ...ratesOf(stream.live) }} />
      <div class="panels">
        <${TopicCharts} topic=${topic} stream=${stream} />
        <${Subscriptions} topic=${topic} stats=${value} path=${path} />
        <${Producers} topic=${topic} stats=${value} path=${path} />
      </div>`}</${Loaded}>`;
}

function Figures({ stats }) {
  const backlog = Math.max(0, ...Object.values(stats.subscriptions).map((each) => each.msgBacklog ?? 0));
  const oldest = stats.earliestMsgPublishTimeInBacklogs;
  return html`<div class="figures">
    <${Figure}
      name="In"
      value=${format.perSecond(stats.msgRateIn)}
      detail=${format.byteRate(stats.msgThroughputIn)}
    />
    <${Figure}
      name="Out"
      value=${format.perSecond(stats.msgRateOut)}
      detail=${format.byteRate(stats.msgThroughputOut)}
    />
    <${Figure}
      name="Stored"
      value=${format.bytes(stats.storageSize)}
      detail=${`${format.bytes(stats.backlogSize)} of it not consumed`}
    />
    <${Figure}
      name="Largest backlog"
      value=${format.count(backlog)}
      detail=${oldest > 0 ? `oldest ${format.age(oldest, Date.now())}` : "messages"}
    />
    <${Figure} name="Producers" value=${format.count(stats.publishers.length)} />
    <${Figure} name="Subscriptions" value=${format.count(Object.keys(stats.subscriptions).length)} />
  </div>`;
}

// The stats have the rates of the last minute; the stream has those of the last second, from its second event on.
function ratesOf(live) {
  if (live === null) return {};
  const rates = live.msgRateIn === null ? {} : { msgRateIn: live.msgRateIn, msgRateOut: live.msgRateOut };
  return { ...rates, storageSize: live.storageSize };
}

function Subscriptions({ topic, stats, path }) {
  const rows = Object.entries(stats.subscriptions).map(([name, each]) => ({ name, ...each }));
  const number = (key, title, show = format.count) => ({
    key,
    title,
    isNumber: true,
    value: (row) => row[key],
    show: (row) => show(row[key]),
  });
  const columns = [
    {
      key: "name",
      title: "Subscription",
      value: (row) => row.name,
      show: (row) => html`<a href=${topicLink(topic, "subscriptions", row.name)}>${row.name}</a>`,
    },
    { key: "type", title: "Type", value: (row) => row.type ?? "" },
    {
      key: "consumers",
      title: "Consumers",
      isNumber: true,
      value: (row) => row.consumers.length,
      show: (row) => format.count(row.consumers.length),
    },
    number("msgRateOut", "Out, msg/s", format.rate),
    number("messageAckRate", "Acked, msg/s", format.rate),
    number("msgBacklog", "Backlog"),
    {
      key: "oldest",
      title: "Oldest",
      isNumber: true,
      value: (row) => row.earliestMsgPublishTimeInBacklog || null,
      show: (row) => format.age(row.earliestMsgPublishTimeInBacklog, Date.now()),
    },
    number("unackedMessages", "Unacked"),
    number("msgDelayed", "Delayed"),
    number("entriesInAckHoles", "In holes"),
    {
      key: "state",
      title: "State",
      isWide: true,
      value: (row) => row.whyIdle ?? "",
      show: (row) => html`<${State} row=${row} />`,
    },
  ];
  return html`<${Panel} title="Subscriptions" wide=${true}>
    <${Table} name="subscriptions" label="Subscriptions" columns=${columns} rows=${rows} rowKey=${(row) => row.name}
      firstSort=${["name", "ascending"]} empty="Nobody has subscribed to this topic." />
    <${HowTo} calls=${[`GET ${path}`]}
      commands=${[`magnetar admin topics stats ${topicWord(topic)} --get-earliest-time-in-backlog`, `magnetar why ${topicWord(topic)}`]} />
  </${Panel}>`;
}

const CALM = ["everything was sent", "nothing to read"];

function State({ row }) {
  if (row.whyIdle === undefined) return null;
  const isCalm = CALM.includes(row.whyIdle) || (row.msgBacklog ?? 0) === 0;
  return html`<span title=${row.whyIdle}><${Badge} tone=${isCalm ? "good" : "warn"}>${row.whyIdle || "delivers"}</${Badge}></span>`;
}

const PRODUCER_COLUMNS = [
  { key: "producerName", title: "Producer", isWide: true, value: (row) => row.producerName ?? "" },
  { key: "address", title: "Address", value: (row) => row.address ?? "" },
  { key: "accessMode", title: "Access", value: (row) => row.accessMode ?? "" },
  {
    key: "msgRateIn",
    title: "In, msg/s",
    isNumber: true,
    value: (row) => row.msgRateIn,
    show: (row) => format.rate(row.msgRateIn),
  },
  {
    key: "msgThroughputIn",
    title: "In, bytes/s",
    isNumber: true,
    value: (row) => row.msgThroughputIn,
    show: (row) => format.bytes(row.msgThroughputIn),
  },
  {
    key: "averageMsgSize",
    title: "Average size",
    isNumber: true,
    value: (row) => row.averageMsgSize,
    show: (row) => format.bytes(row.averageMsgSize),
  },
  {
    key: "connectedSince",
    title: "Since",
    value: (row) => row.connectedSince ?? "",
    show: (row) => format.time(Date.parse(row.connectedSince)),
  },
  { key: "clientVersion", title: "Client", value: (row) => row.clientVersion ?? "" },
];

function Producers({ topic, stats, path }) {
  return html`<${Panel} title="Producers" wide=${true}>
    <${Table} name="producers" label="Producers" columns=${PRODUCER_COLUMNS} rows=${stats.publishers}
      rowKey=${(row) => `${row.address}/${row.producerId}`}
      firstSort=${["producerName", "ascending"]} empty="No producer is connected." />
    <${HowTo} calls=${[`GET ${path}`]} commands=${[`magnetar admin topics stats ${topicWord(topic)}`]} />
  </${Panel}>`;
}
