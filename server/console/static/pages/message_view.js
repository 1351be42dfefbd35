// Draws messages: their ids, times, keys and properties, and their content decoded by the topic's schema.

import * as format from "../parts/format_rules.js";
import { html, useState } from "../parts/library.js";
import { Badge, Facts } from "../parts/panels.js";
import { topicLink } from "../parts/routes.js";

const SHORT_CHARACTERS = 160;

// `isOpenFirst` shows each message with all of its details.
export function MessageList({ topic, messages, empty = "No message is here.", isOpenFirst = false }) {
  if (messages.length === 0) return html`<p class="empty">${empty}</p>`;
  return html`<div data-messages=${messages.length}>
    ${messages.map((each) => html`<${Message} key=${each.id} topic=${topic} message=${each} isOpenFirst=${isOpenFirst} />`)}
  </div>`;
}

export function Message({ topic, message, isOpenFirst }) {
  const [isOpen, setIsOpen] = useState(isOpenFirst);
  return html`<article class="message" data-message=${message.id}>
    <div class="message-head">
      <button
        type="button"
        class="quiet"
        aria-expanded=${isOpen}
        aria-label=${`Details of ${message.id}`}
        onClick=${() => setIsOpen(!isOpen)}
      >
        ${isOpen ? "▾" : "▸"}
      </button>
      <a class="mono" href=${topicLink(topic, "messages", message.id)} title="Follow this message">${message.id}</a>
      <time class="hint">${format.time(message.publishTime)}</time>
      ${message.key !== undefined && html`<span><span class="hint">key</span> <code data-part="key">${message.key}</code></span>`}
      ${Object.entries(message.properties ?? {}).map(([name, value]) => html`<code key=${name} class="hint"
        data-part="property">${name}=${value}</code>`)}
      <${Marks} message=${message} />
      ${!isOpen && html`<code class="message-value" data-part="value">${shortOf(message)}</code>`}
    </div>
    ${isOpen && html`<${Details} message=${message} />`}
  </article>`;
}

function Marks({ message }) {
  return html`${message.encrypted && html`<${Badge} tone="warn">encrypted</${Badge}>`}
  ${message.compression && html`<${Badge}>${message.compression}</${Badge}>`}
  ${message.chunk &&
    html`<${Badge} tone=${message.chunk.missing ? "bad" : ""}>${chunksOf(message.chunk)}</${Badge}>`}
  ${message.marker && html`<${Badge}>${message.marker}</${Badge}>`}
  ${message.nullValue && html`<${Badge}>no value</${Badge}>`}
  ${message.deliverAt && html`<${Badge}>due ${format.time(message.deliverAt)}</${Badge}>`}
  ${message.value?.fault && html`<${Badge} tone="bad">not decoded</${Badge}>`}`;
}

function chunksOf({ count, missing }) {
  return format.plural(count, "chunk") + (missing ? `, ${missing} missing` : "");
}

function Details({ message }) {
  return html`<${Facts}
      rows=${[
        ["Producer", message.producer],
        ["Sequence id", String(message.sequenceId)],
        ["Size", format.bytes(message.size)],
        ["Published", format.time(message.publishTime)],
        ["Event time", message.eventTime ? format.time(message.eventTime) : undefined],
        ["Batch", message.batchSize ? `${(message.batchIndex ?? 0) + 1} of ${message.batchSize}` : undefined],
        [
          "Schema",
          message.schemaVersion === undefined
            ? undefined
            : `${message.schemaType ?? ""} version ${message.schemaVersion}`,
        ],
        ["Ordering key", message.orderingKey],
        ["Chunks", message.chunk?.ids?.join(", ")],
      ]}
    />
    ${message.value?.fault && html`<p class="fault">${message.value.fault}</p>`}
    <pre data-part="value" tabindex="0">${contentOf(message, 2)}</pre>
    ${message.value?.truncated && html`<p class="note">The content is longer than what is shown.</p>`}`;
}

// Returns the content as text: JSON is written anew, bytes stay base64.
export function contentOf(message, indent) {
  const { kind, content } = message.value ?? {};
  if (kind === "none" || content === undefined || content === null) return kind === "json" ? "null" : "";
  return kind === "json" || typeof content !== "string" ? JSON.stringify(content, null, indent) : content;
}

function shortOf(message) {
  const text = contentOf(message, 0);
  return text.length > SHORT_CHARACTERS ? `${text.slice(0, SHORT_CHARACTERS)}…` : text;
}
