// The delayed messages of a subscription by the time at which they become due.

import * as format from "../parts/format_rules.js";
import { html } from "../parts/library.js";
import { HowTo, Panel, topicWord } from "../parts/panels.js";
import { FRESH_MS, useCall } from "../parts/polling.js";
import { topicPath } from "../parts/rest_calls.js";

export function Delayed({ topic, name, about }) {
  const path = topicPath(topic, "subscription", name, "delayed");
  const delayed = useCall(path, { every: FRESH_MS });
  const buckets = delayed.value?.buckets ?? [];
  const most = Math.max(1, ...buckets.map((each) => each.messages));
  return html`<${Panel} title="Delayed messages" name="delayed" aside=${`${format.count(about.msgDelayed)} wait for their time`}>
    ${delayed.value?.nextDue && html`<p>${sentenceOf(delayed.value)}</p>`}
    <div class="bars">
      ${buckets.map(
        (each) =>
          html`<span key=${each.from} class="mono">${format.time(each.from).slice(0, 19)}</span>
            <meter min="0" max=${most} value=${each.messages} aria-label=${`${each.messages} messages`}></meter
            ><span>${format.count(each.messages)}</span>`,
      )}
    </div>
    ${delayed.error && html`<p class="note">${delayed.error.message}</p>`}
    <${HowTo} calls=${[`GET ${path}`]} commands=${[`magnetar why ${topicWord(topic)} ${format.shellWord(name)}`]} />
  </${Panel}>`;
}

function sentenceOf({ nextDue, isCut }) {
  const wait = format.duration(Math.max(0, nextDue - Date.now()) / 1000);
  const more = isCut ? " Those that are due last are not counted below." : "";
  return `The next is due at ${format.time(nextDue)} UTC, in ${wait}.${more}`;
}
