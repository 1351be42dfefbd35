// Publishes a message to a topic, with a preview of what is sent.

import { ActionButton, Field } from "../parts/dialogs.js";
import { exampleOf } from "../parts/example_rules.js";
import * as format from "../parts/format_rules.js";
import { html, useMemo, useState } from "../parts/library.js";
import { Fault, HowTo, Panel, topicWord } from "../parts/panels.js";
import { useCall } from "../parts/polling.js";
import { adminPath, call } from "../parts/rest_calls.js";
import { topicLink } from "../parts/routes.js";

const FIRST = { payload: "", key: "", properties: "", delay: "" };

export function Produce({ topic }) {
  const schema = useCall(adminPath("schemas", topic.tenant, topic.namespace, topic.name, "schema"));
  const [form, setForm] = useState(FIRST);
  const [sent, setSent] = useState([]);
  const [error, setError] = useState(null);
  const [isBusy, setIsBusy] = useState(false);
  const path = ["topics", topic.domain, topic.tenant, topic.namespace, topic.name].map(encodeURIComponent).join("/");
  const request = useMemo(() => requestOf(form, schema.value), [form, schema.value]);
  const example = useMemo(() => (schema.value ? exampleOf(schema.value) : ""), [schema.value]);
  const typed = (name) => (event) => setForm({ ...form, [name]: event.target.value });
  const send = async (event) => {
    event.preventDefault();
    setIsBusy(true);
    setError(null);
    try {
      const answer = await call(path, { method: "POST", body: request.body });
      setSent((old) => [...answer.messagePublishResults, ...old].slice(0, 20));
    } catch (fault) {
      setError(fault);
    }
    setIsBusy(false);
  };
  return html`<div class="panels">
    <${Panel} title="A message" name="produce">
      <form onSubmit=${send}>
        <${Field} label=${`Content${schema.value ? `, as ${schema.value.type} version ${schema.value.version}` : ""}`}
          hint=${hintOf(schema.value)}>
          <textarea name="payload" rows="8" spellcheck=${false} value=${form.payload} onInput=${typed("payload")}></textarea>
        </${Field}>
        ${example && html`<${ActionButton} onAct=${() => setForm({ ...form, payload: example })}>Fill in an example</${ActionButton}>`}
        <div class="row">
          <${Field} label="Key"><input name="key" value=${form.key} onInput=${typed("key")} /></${Field}>
          <${Field} label="Deliver after, seconds"><input name="delay" type="number" min="0" value=${form.delay}
            onInput=${typed("delay")} /></${Field}>
        </div>
        <${Field} label="Properties" hint="One a line: name=value"><textarea name="properties" rows="3"
          spellcheck=${false} value=${form.properties} onInput=${typed("properties")}></textarea></${Field}>
        <${Fault} error=${error} topic=${topic} />
        ${request.fault && html`<p class="fault">${request.fault}</p>`}
        <${ActionButton} type="submit" tone="primary" isBusy=${isBusy} disabled=${request.fault !== undefined}>Publish</${ActionButton}>
      </form>
      <${HowTo} calls=${[`POST ${path}`]} commands=${[commandOf(topic, form)]} />
    </${Panel}>
    <${Panel} title="What will be sent" name="preview">
      <p class="note" data-preview="produce">${previewOf(form)}</p>
      <pre tabindex="0">${JSON.stringify(request.body, null, 2)}</pre>
      ${
        sent.length > 0 &&
        html`<h3>Sent</h3>
          <ul class="sentences" role="status">
            ${sent.map((each, index) => html`<li key=${sent.length - index}
              data-sent=${each.messageId ?? "failed"}>${outcomeOf(topic, each)}</li>`)}
          </ul>`
      }
      <${HowTo} calls=${[`POST ${path}`]} commands=${[commandOf(topic, form)]} />
    </${Panel}>
  </div>`;
}

function previewOf(form) {
  const size = format.bytes(new TextEncoder().encode(form.payload).length);
  const delay = form.delay && `, which subscriptions of type Shared and Key_Shared get ${format.duration(Number(form.delay))} later`;
  return `Stores one message of ${size} of text in the topic${delay}. All subscriptions get it.`;
}

function hintOf(schema) {
  if (!schema) return "The topic has no schema: the text is stored as UTF-8.";
  if (schema.type === "AVRO") return 'Write it in Avro\'s JSON encoding, which names the branch of a union: {"string": "x"}.';
  return schema.type === "JSON" ? "Write it as JSON." : "The server encodes it by the schema.";
}

// Returns {body, fault}: the body of the call, and what is wrong with the fields.
function requestOf(form, schema) {
  const message = { payload: form.payload };
  if (form.key !== "") message.key = form.key;
  const pairs = form.properties
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => line.split(/=(.*)/s));
  const broken = pairs.find((pair) => pair.length < 2);
  if (pairs.length > 0)
    message.properties = Object.fromEntries(pairs.map(([name, value = ""]) => [name.trim(), value]));
  if (form.delay !== "") message.deliverAfterMs = Math.round(Number(form.delay) * 1000);
  const body = schema ? { schemaVersion: schema.version, messages: [message] } : { messages: [message] };
  return { body, fault: broken ? `A property is name=value; this has no "=": ${broken[0]}` : undefined };
}

function commandOf(topic, form) {
  const key = form.key === "" ? "" : ` -k ${format.shellWord(form.key)}`;
  return `magnetar produce ${topicWord(topic)} -m ${format.shellWord(form.payload)}${key}`;
}

// The id of a stored message is LEDGER:ENTRY:PARTITION in Apache's answer; a link leads to the message itself.
function outcomeOf(topic, { messageId, errorMsg }) {
  if (errorMsg) return html`<span class="fault">${errorMsg}</span>`;
  const [ledger, entry, partition] = String(messageId).split(":");
  const place = Number(partition) >= 0 ? { ...topic, name: `${topic.name}-partition-${partition}` } : topic;
  return html`<a class="mono" href=${topicLink(place, "messages", `${ledger}:${entry}`)}>${ledger}:${entry}</a>`;
}
