// One message: what it is, where it lies, and what became of it in each subscription.

import * as format from "../parts/format_rules.js";
import { html } from "../parts/library.js";
import { Badge, Facts, HowTo, Loaded, Panel, topicWord } from "../parts/panels.js";
import { FRESH_MS, useCall } from "../parts/polling.js";
import { topicPath, withQuery } from "../parts/rest_calls.js";
import { topicLink } from "../parts/routes.js";
import { MessageList } from "./message_view.js";

const TONES = { acknowledged: "good", held: "warn", delayed: "", waiting: "", redelivery: "warn" };

export function MessageStory({ topic, id }) {
  const place = format.messageId(id);
  if (place === null) return html`<p class="note">${id} is no message id; one looks like 12:34.</p>`;
  const storyPath = withQuery(topicPath(topic, "messages", String(place.ledger), String(place.entry), "story"), {
    batchIndex: place.batch,
  });
  const messagePath = withQuery(topicPath(topic, "messages"), { from: `${place.ledger}:${place.entry}`, count: 1 });
  const message = useCall(messagePath);
  const story = useCall(storyPath, { every: FRESH_MS });
  return html`<div class="panels">
    <${Panel} title=${`Message ${id}`} wide=${true} name="message">
      <${Loaded} from=${message} topic=${topic}>${(value) => html`<${MessageList} topic=${topic} isOpenFirst=${true}
        messages=${value.messages.filter((each) => isIt(each, place))} empty="There is no such message in the topic now." />`}</${Loaded}>
      <${HowTo} calls=${[`GET ${messagePath}`]}
        commands=${[`magnetar admin topics get-message-by-id ${topicWord(topic)} -l ${place.ledger} -e ${place.entry}`]} />
    </${Panel}>
    <${Panel} title="What became of it" name="story">
      <${Loaded} from=${story} topic=${topic}>${(value) =>
        html`${value.subscriptions.length === 0 && html`<p class="empty">The topic has no subscription.</p>`}
          <ul class="sentences">
            ${value.subscriptions.map(
              (each) => html`<li key=${each.name} data-subscription=${each.name} data-state=${each.state}>
          <${Badge} tone=${TONES[each.state] ?? ""}>${each.state}</${Badge}>
          <span><a href=${topicLink(topic, "subscriptions", each.name)}>${each.name}</a>: ${each.sentence}</span></li>`,
            )}
          </ul>
          ${value.notRecorded && html`<p class="hint">${value.notRecorded}</p>`}`}</${Loaded}>
      <${HowTo} calls=${[`GET ${storyPath}`]} commands=${[`magnetar story ${topicWord(topic)} ${id}`]} />
    </${Panel}>
    <${Panel} title="Where it lies" name="where">
      <${Loaded} from=${story} topic=${topic}>${({ where }) =>
        html`<${Facts}
          rows=${[
            ["Ledger", html`<a href=${topicLink(topic, "ledgers")}>${where.ledger}</a>, ${String(where.ledgerState).toLowerCase()}`],
            ["Entry", format.count(where.entry)],
            ["Size", format.bytes(where.size)],
            ["Bookies that hold it", (where.writeSet ?? []).join(", ")],
            ["Ensemble of its fragment", (where.ensemble ?? []).join(", ")],
          ]}
        />`}</${Loaded}>
      <${HowTo} calls=${[`GET ${storyPath}`]} commands=${[`magnetar ledgers ${topicWord(topic)}`]} />
    </${Panel}>
  </div>`;
}

function isIt(message, { ledger, entry, batch }) {
  return message.ledgerId === ledger && message.entryId === entry && (batch === null || message.batchIndex === batch);
}
