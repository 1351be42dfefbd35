// The first page: what the broker does now, and what needs attention.

import { Chart, useSeries } from "../parts/charts.js";
import * as format from "../parts/format_rules.js";
import { useStream } from "../parts/event_stream.js";
import { html, useState } from "../parts/library.js";
import { Badge, Facts, Fault, Figure, HowTo, Loaded, Panel, Waiting } from "../parts/panels.js";
import { useCall } from "../parts/polling.js";
import { adminPath } from "../parts/rest_calls.js";
import { link } from "../parts/routes.js";
import { Table } from "../parts/tables.js";

const LIVE = "admin/v2/broker-stats/live";
const DISK = "api/v1/bookie/info";
const REPORT_MS = 10_000;

const MESSAGES = [
  { name: "In, msg/s", colour: "accent" },
  { name: "Out, msg/s", colour: "second" },
];
const TRAFFIC = [
  { name: "In, bytes/s", colour: "accent" },
  { name: "Out, bytes/s", colour: "second" },
];
const LATENCY = [
  { name: "50 %", colour: "accent" },
  { name: "99 %", colour: "third" },
];

export function Overview() {
  const messages = useSeries();
  const traffic = useSeries();
  const latency = useSeries();
  const [now, setNow] = useState(null);
  const error = useStream(LIVE, (event, value) => {
    if (event !== "broker") return;
    if (value.msgRateIn !== null) {
      messages.add(value.time, [value.msgRateIn, value.msgRateOut]);
      traffic.add(value.time, [value.msgThroughputIn, value.msgThroughputOut]);
    }
    latency.add(value.time, [value.publishLatencyMs?.p50 ?? null, value.publishLatencyMs?.p99 ?? null]);
    setNow(value);
  });
  const howTo = html`<${HowTo}
    calls=${[`GET ${LIVE}`]}
    commands=${["magnetar admin broker-stats load-report", "magnetar admin broker-stats monitoring-metrics"]}
  />`;
  return html`<${Fault} error=${error} />
    ${error?.isDenied && html`<p class="note">The overview is for superusers. Type the name of a topic above to go to it.</p>`}
    ${now === null && !error && html`<${Waiting} what="Waiting for the first numbers" />`}
    ${now !== null && html`<${Figures} now=${now} />`}
    <div class="panels">
      ${now !== null && html`<${Attention} sentences=${now.attention ?? []} />
        <${Panel} title="Messages a second" name="messages">
          <${Chart} series=${messages} lines=${MESSAGES} show=${format.rate} label="Messages in and out a second" />${howTo}
        </${Panel}>
        <${Panel} title="Bytes a second" name="traffic">
          <${Chart} series=${traffic} lines=${TRAFFIC} show=${format.bytes} least=${1024} label="Bytes in and out a second" />${howTo}
        </${Panel}>
        <${Panel} title="Publishing takes" name="latency">
          <${Chart} series=${latency} lines=${LATENCY} show=${format.milliseconds} label="How long publishing takes" />${howTo}
        </${Panel}>`}
      ${error?.isDenied || html`<${Disk} /><${AboutBroker} />`}
      <${Namespaces} isDenied=${error?.isDenied} />
    </div>`;
}

function Figures({ now }) {
  return html`<div class="figures">
    <${Figure} name="In" value=${format.perSecond(now.msgRateIn)} detail=${format.byteRate(now.msgThroughputIn)} />
    <${Figure} name="Out" value=${format.perSecond(now.msgRateOut)} detail=${format.byteRate(now.msgThroughputOut)} />
    ${now.publishLatencyMs && html`<${Figure} name="Publishing takes"
      value=${format.milliseconds(now.publishLatencyMs.p50)} detail=${`99 %: ${format.milliseconds(now.publishLatencyMs.p99)}`} />`}
    <${Figure} name="Topics loaded" value=${format.count(now.topics)} />
    <${Figure} name="Producers" value=${format.count(now.producers)} />
    <${Figure} name="Consumers" value=${format.count(now.consumers)} />
    <${Figure} name="Connections" value=${format.count(now.connections)} />
    <${Figure} name="Memory" value=${format.bytes(now.memoryBytes)} />
    <${Figure} name="Stored" value=${format.bytes(now.storageBytes)} />
  </div>`;
}

function Attention({ sentences }) {
  return html`<${Panel} title="What needs attention" wide=${true} name="attention">
    ${
      sentences.length === 0
        ? html`<p class="note"><${Badge} tone="good">calm</${Badge}> Nothing stands out.</p>`
        : html`<ul class="sentences">
            ${sentences.map((each) => html`<li key=${each}><${Badge} tone="warn">look</${Badge}><span>${each}</span></li>`)}
          </ul>`
    }
    <${HowTo} calls=${[`GET ${LIVE}`]} commands=${["magnetar why TOPIC", "magnetar check subscription TOPIC SUBSCRIPTION"]} />
  </${Panel}>`;
}

const NAMESPACE_COLUMNS = [
  {
    key: "namespace",
    title: "Namespace",
    isWide: true,
    value: (row) => row.namespace,
    show: (row) => html`<a href=${link("namespaces", ...row.namespace.split("/"))}>${row.namespace}</a>`,
  },
  ...[
    ["brk_in_rate", "In, msg/s", format.rate],
    ["brk_out_rate", "Out, msg/s", format.rate],
    ["brk_msg_backlog", "Backlog", format.count],
    ["brk_storage_size", "Stored", format.bytes],
    ["brk_no_of_producers", "Producers", format.count],
    ["brk_no_of_consumers", "Consumers", format.count],
  ].map(([key, title, show]) => ({
    key,
    title,
    isNumber: true,
    value: (row) => row[key],
    show: (row) => show(row[key]),
  })),
];

function Namespaces({ isDenied }) {
  const metrics = useCall(isDenied ? null : adminPath("broker-stats", "metrics"), { every: REPORT_MS });
  if (isDenied) return null;
  return html`<${Panel} title="Namespaces with loaded topics" wide=${true}>
    <${Loaded} from=${metrics}>${(value) =>
      html`<${Table}
        name="namespaces"
        label="Namespaces"
        columns=${NAMESPACE_COLUMNS}
        rows=${value.filter((each) => each.dimensions.namespace).map((each) => ({ namespace: each.dimensions.namespace, ...each.metrics }))}
        rowKey=${(row) => row.namespace}
        firstSort=${["brk_in_rate", "descending"]}
        empty="No topic is loaded."
      />`}</${Loaded}>
    <${HowTo} calls=${["GET admin/v2/broker-stats/metrics"]} commands=${["magnetar admin broker-stats monitoring-metrics"]} />
  </${Panel}>`;
}

const percent = (share) => `${(100 * share).toFixed(2)} %`;

function Disk() {
  const disk = useCall(DISK, { every: REPORT_MS });
  // The broker of a cluster has no such call.
  if (disk.error?.status === 404) {
    return html`<${Panel} title="Disk" name="disk">
      <p>This broker stores nothing itself. The page <a href=${link("bookies")}>Bookies</a> has the disk of each bookie.</p>
      <${HowTo} calls=${["GET admin/v2/bookies/disks"]} commands=${["magnetar bk bookieinfo"]} />
    </${Panel}>`;
  }
  return html`<${Panel} title="Disk" name="disk">
    <${Loaded} from=${disk}>${(value) =>
      html`<p>
          ${
            value.refusesWritesBecause === null
              ? html`<${Badge} tone="good">takes writes</${Badge}>`
              : html`<${Badge} tone="bad">refuses writes</${Badge}> <span>${value.refusesWritesBecause}</span>`
          }
        </p>
        <${Facts}
          rows=${[
            ["Free", format.bytes(value.freeSpace)],
            ["Used", `${percent(value.usedShare)} of ${format.bytes(value.totalSpace)}`],
            ["You are warned", `above ${percent(value.diskUsageWarnThreshold)} used`],
            ["Writes are refused", `above ${percent(value.diskUsageThreshold)} used`],
            ["They are taken again", `at ${percent(value.diskUsageLwmThreshold)}`],
            ["Kept for a start on a full disk", format.bytes(value.reservedSpace)],
          ]}
        />`}</${Loaded}>
    <${HowTo} calls=${[`GET ${DISK}`]} commands=${["magnetar check disk", "magnetar config diskUsageThreshold"]} />
  </${Panel}>`;
}

function AboutBroker() {
  const report = useCall(adminPath("broker-stats", "load-report"), { every: REPORT_MS });
  return html`<${Panel} title="This broker">
    <${Loaded} from=${report}>${(value) =>
      html`<${Facts}
        rows=${[
          ["Version", value.brokerVersionString],
          ["Clients connect to", html`<code>${value.pulsarServiceUrl ?? value.pulsarServiceUrlTls}</code>`],
          ["Up for", format.age(value.startTimestamp, Date.now())],
          [
            "Processor",
            value.cpu && value.cpu.usage >= 0
              ? `${format.count(value.cpu.usage)} of ${format.count(value.cpu.limit)} %`
              : undefined,
          ],
          ["Bundles", format.count(value.numBundles)],
        ]}
      />`}</${Loaded}>
    <${HowTo} calls=${["GET admin/v2/broker-stats/load-report"]} commands=${["magnetar admin broker-stats load-report"]} />
  </${Panel}>`;
}
