// A partitioned topic as a whole, with a row for each partition.

import * as format from "../parts/format_rules.js";
import { html } from "../parts/library.js";
import { Figure, HowTo, Loaded, Panel, topicWord } from "../parts/panels.js";
import { FRESH_MS, useCall } from "../parts/polling.js";
import { topicPath } from "../parts/rest_calls.js";
import { parseTopic, topicLink } from "../parts/routes.js";
import { Table } from "../parts/tables.js";

const number = (key, title, show = format.count) => ({
  key,
  title,
  isNumber: true,
  value: (row) => row[key],
  show: (row) => show(row[key]),
});

const COLUMNS = [
  {
    key: "topic",
    title: "Partition",
    isWide: true,
    value: (row) => row.topic,
    show: (row) => html`<a href=${topicLink(parseTopic(row.topic))}>${parseTopic(row.topic).name}</a>`,
  },
  { key: "owner", title: "Broker", value: (row) => row.ownerBroker ?? "" },
  number("msgRateIn", "In, msg/s", format.rate),
  number("msgRateOut", "Out, msg/s", format.rate),
  number("storageSize", "Stored", format.bytes),
  number("backlog", "Largest backlog"),
];

export function PartitionedTopic({ topic }) {
  const path = topicPath(topic, "partitioned-stats");
  const stats = useCall(path, { every: FRESH_MS });
  return html`<${Loaded} from=${stats}>${(value) => {
    const rows = Object.entries(value.partitions ?? {}).map(([name, each]) => ({
      topic: name,
      ...each,
      backlog: Math.max(0, ...Object.values(each.subscriptions ?? {}).map((one) => one.msgBacklog ?? 0)),
    }));
    return html`
      <div class="figures">
        <${Figure} name="In" value=${`${format.rate(value.msgRateIn)}/s`} detail=${format.byteRate(value.msgThroughputIn)} />
        <${Figure} name="Out" value=${`${format.rate(value.msgRateOut)}/s`} detail=${format.byteRate(value.msgThroughputOut)} />
        <${Figure} name="Stored" value=${format.bytes(value.storageSize)} />
        <${Figure} name="Subscriptions" value=${format.count(Object.keys(value.subscriptions ?? {}).length)} />
      </div>
      <div class="panels">
        <${Panel} title="Partitions" wide=${true}>
          <${Table} name="partitions" label="Partitions" columns=${COLUMNS} rows=${rows} rowKey=${(row) => row.topic}
            firstSort=${["topic", "ascending"]} />
          <${HowTo} calls=${[`GET ${path}`]} commands=${[`magnetar admin topics partitioned-stats ${topicWord(topic)}`]} />
        </${Panel}>
      </div>`;
  }}</${Loaded}>`;
}
