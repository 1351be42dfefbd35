// A subscription: why it gets nothing in words, where it stands, its holes as a map, its consumers, who holds which key,
// and what is delayed.

import * as format from "../parts/format_rules.js";
import { html, useState } from "../parts/library.js";
import { Badge, Facts, Fault, Figure, HowTo, Loaded, Panel, topicWord } from "../parts/panels.js";
import { FRESH_MS, useCall } from "../parts/polling.js";
import { topicPath, withQuery } from "../parts/rest_calls.js";
import { Table } from "../parts/tables.js";
import { Delayed } from "./delayed.js";
import { HoleMap } from "./hole_map.js";
import { KeyMap } from "./key_map.js";
import { SubscriptionActions } from "./subscription_actions.js";

export function Subscription({ topic, name }) {
  const statsPath = withQuery(topicPath(topic, "stats"), { getEarliestTimeInBacklog: "true" });
  const internalPath = topicPath(topic, "internalStats");
  const whyPath = withQuery(topicPath(topic, "why"), { subscription: name });
  const stats = useCall(statsPath, { every: FRESH_MS });
  const internal = useCall(internalPath, { every: FRESH_MS });
  const why = useCall(whyPath, { every: FRESH_MS });
  const refresh = () => [stats, internal, why].forEach((each) => each.refresh());
  const commands = [`magnetar why ${topicWord(topic)} ${format.shellWord(name)}`];
  const [wish, setWish] = useState(null);
  return html`<${Loaded} from=${stats} topic=${topic}>${(value) => {
    const about = value.subscriptions[name];
    if (about === undefined) return html`<p class="note">The topic has no subscription ${name}.</p>`;
    const cursor = internal.value?.cursors?.[name];
    return html`
      <${Figures} about=${about} cursor=${cursor} />
      <div class="panels">
        <${Panel} title="Why" wide=${true} name="why" aside=${html`<${SubscriptionActions} topic=${topic} name=${name}
          internal=${internal.value} wish=${wish} setWish=${setWish} onDone=${refresh} />`}>
          <${Loaded} from=${why}>${(answer) => html`<${Reasons} answer=${answer.subscriptions[name]} />`}</${Loaded}>
          <${HowTo} calls=${[`GET ${whyPath}`]} commands=${commands} />
        </${Panel}>
        ${
          cursor &&
          html`<${Panel} title="Backlog" wide=${true} name="backlog">
          <${HoleMap} topic=${topic} stats=${internal.value} name=${name} />
          <${HowTo} calls=${[`GET ${internalPath}`]} commands=${[`magnetar admin topics stats-internal ${topicWord(topic)}`]} />
        </${Panel}>`
        }
        <${Fault} error=${internal.error} />
        <${Consumers} topic=${topic} about=${about} path=${statsPath} />
        ${
          about.type === "Key_Shared" &&
          html`<${Panel} title="Who holds which key" wide=${true} name="keys">
          <${KeyMap} consumers=${about.consumers} />
          <${HowTo} calls=${[`GET ${statsPath}`]} commands=${[`magnetar admin topics stats ${topicWord(topic)}`]} />
        </${Panel}>`
        }
        ${about.msgDelayed > 0 && html`<${Delayed} topic=${topic} name=${name} about=${about} />`}
        <${Details} about=${about} cursor=${cursor} path=${internalPath} topic=${topic} />
      </div>`;
  }}</${Loaded}>`;
}

function Figures({ about, cursor }) {
  const oldest = about.earliestMsgPublishTimeInBacklog;
  return html`<div class="figures">
    <${Figure} name="Type" value=${about.type ?? "none"} detail=${format.plural(about.consumers.length, "consumer")} />
    <${Figure}
      name="Backlog"
      value=${format.count(about.msgBacklog)}
      detail=${oldest > 0 ? `oldest ${format.age(oldest, Date.now())}` : format.bytes(about.backlogSize)}
    />
    <${Figure} name="Unacknowledged" value=${format.count(about.unackedMessages)} detail="with consumers" />
    <${Figure} name="Delayed" value=${format.count(about.msgDelayed)} />
    <${Figure} name="In holes" value=${format.count(about.entriesInAckHoles)} detail="entries" />
    <${Figure}
      name="Out"
      value=${`${format.rate(about.msgRateOut)}/s`}
      detail=${`acknowledged ${format.rate(about.messageAckRate)}/s`}
    />
    ${cursor && html`<${Figure} name="Mark-delete" value=${html`<span class="mono">${cursor.markDeletePosition}</span>`}
      detail=${`reads at ${cursor.readPosition}`} />`}
  </div>`;
}

const TONES = { everything: ["bad", "everything waits"], some: ["warn", "some wait"], nothing: ["", "note"] };

function Reasons({ answer }) {
  if (answer === undefined) return html`<p class="note">The broker says nothing about it.</p>`;
  return html`<p data-why="summary">${answer.summary ? `Backlog: ${answer.summary}.` : "There is no backlog."}</p>
    ${
      answer.reasons.length === 0
        ? html`<p><${Badge} tone="good">free</${Badge}> Nothing stands in the way: a message that comes now is delivered at once.</p>`
        : html`<ul class="sentences">
            ${answer.reasons.map((each) => {
              const [tone, words] = TONES[each.holdsBack] ?? ["", each.holdsBack];
              return html`<li key=${each.code} data-reason=${each.code}><${Badge} tone=${tone}>${words}</${Badge}>
                <span>${each.sentence} <code class="hint">${each.code}</code></span></li>`;
            })}
          </ul>`
    }`;
}

const number = (key, title, show = format.count) => ({
  key,
  title,
  isNumber: true,
  value: (row) => row[key],
  show: (row) => show(row[key]),
});

const CONSUMER_COLUMNS = [
  { key: "consumerName", title: "Consumer", isWide: true, value: (row) => row.consumerName },
  { key: "address", title: "Address", value: (row) => row.address ?? "" },
  {
    key: "permits",
    title: "Permits",
    isNumber: true,
    value: (row) => row.availablePermits,
    show: (row) =>
      html`<span class=${row.availablePermits > 0 ? "" : "badge warn"}>${format.count(row.availablePermits)}</span>`,
  },
  number("unackedMessages", "Unacked"),
  number("msgRateOut", "Out, msg/s", format.rate),
  number("messageAckRate", "Acked, msg/s", format.rate),
  number("msgRateRedeliver", "Again, msg/s", format.rate),
  number("msgOutCounter", "Sent"),
  {
    key: "acked",
    title: "Last ack",
    isNumber: true,
    value: (row) => row.lastAckedTimestamp,
    show: (row) => format.age(row.lastAckedTimestamp, Date.now()),
  },
  {
    key: "since",
    title: "Since",
    value: (row) => row.connectedSince ?? "",
    show: (row) => format.time(Date.parse(row.connectedSince)),
  },
  { key: "client", title: "Client", value: (row) => row.clientVersion ?? "" },
];

function Consumers({ topic, about, path }) {
  const active = about.activeConsumerName;
  return html`<${Panel} title="Consumers" wide=${true} aside=${active && html`active: <strong>${active}</strong>`}>
    <${Table} name="consumers" label="Consumers" columns=${CONSUMER_COLUMNS} rows=${about.consumers}
      rowKey=${(row) => `${row.consumerName} ${row.address} ${row.connectedSince}`}
      firstSort=${["consumerName", "ascending"]} empty="No consumer is connected." />
    <${HowTo} calls=${[`GET ${path}`]} commands=${[`magnetar admin topics stats ${topicWord(topic)}`]} />
  </${Panel}>`;
}

function Details({ about, cursor, path, topic }) {
  const properties = Object.entries(about.subscriptionProperties ?? {});
  return html`<${Panel} title="The cursor">
    <${Facts} rows=${[
      ["Durable", about.isDurable ? "yes" : "no"],
      ["Ledger of its state", cursor && (cursor.cursorLedger < 0 ? "none yet" : String(cursor.cursorLedger))],
      ["State", cursor?.state],
      ["Expired", format.count(about.totalMsgExpired)],
      ["Last acknowledgement", format.time(about.lastAckedTimestamp)],
      ["Last message sent", format.time(about.lastConsumedTimestamp)],
      ["Last request for messages", format.time(about.lastConsumedFlowTimestamp)],
      ["Properties", properties.length > 0 ? properties.map(([key, text]) => `${key}=${text}`).join(", ") : undefined],
    ]} />
    <${HowTo} calls=${[`GET ${path}`]} commands=${[`magnetar admin topics stats-internal ${topicWord(topic)}`]} />
  </${Panel}>`;
}
