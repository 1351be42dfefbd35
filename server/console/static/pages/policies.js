// The policies that hold for a topic, each with where its value comes from: the topic, its namespace, or broker.conf.
// Each can be set for this topic, and what was set can be taken away again.

import { ActionButton, Dialog, Field } from "../parts/dialogs.js";
import { html, useState } from "../parts/library.js";
import { Badge, Fault, HowTo, Loaded, Panel, topicWord } from "../parts/panels.js";
import { useCall } from "../parts/polling.js";
import { call, topicPath, withQuery } from "../parts/rest_calls.js";
import { foundRows } from "../parts/table_rules.js";
import { SearchField, Table } from "../parts/tables.js";

const TONES = { topic: "good", namespace: "warn", broker: "" };

export function Policies({ topic }) {
  const path = topicPath(topic, "policySources");
  const policies = useCall(path);
  const [search, setSearch] = useState("");
  const [edited, setEdited] = useState(null);
  const columns = [
    { key: "policy", title: "Policy", value: (row) => row.policy },
    {
      key: "value",
      title: "Value",
      isWide: true,
      value: (row) => shown(row.value),
      show: (row) => html`<code>${shown(row.value)}</code>`,
    },
    {
      key: "source",
      title: "Comes from",
      value: (row) => row.source,
      show: (row) =>
        html`<${Badge} tone=${TONES[row.source] ?? ""}>${row.source === "broker" ? "broker.conf" : row.source}</${Badge}>`,
    },
    {
      key: "edit",
      title: "",
      isUnsorted: true,
      value: () => "",
      show: (row) =>
        html`<button type="button" class="quiet" aria-label=${`Edit ${row.policy}`} onClick=${() => setEdited(row)}>
          edit
        </button>`,
    },
  ];
  return html`<div class="panels">
    <${Panel} title="Policies in force" wide=${true} aside=${html`<${SearchField} label="Search policies" onText=${setSearch} />`}>
      <${Loaded} from=${policies} topic=${topic}>${(rows) =>
        html`<${Table}
          name="policies"
          label="Policies"
          columns=${columns}
          rows=${foundRows(rows, search, (row) => `${row.policy} ${row.source}`)}
          rowKey=${(row) => row.policy}
          firstSort=${["policy", "ascending"]}
          empty="No policy has such a name."
        />`}</${Loaded}>
      <${HowTo} calls=${[`GET ${path}`]} commands=${[`magnetar admin topicPolicies get-retention ${topicWord(topic)} --applied`]} />
    </${Panel}>
    ${edited && html`<${Editor} key=${edited.policy} topic=${topic} row=${edited} onClose=${() => setEdited(null)}
      onDone=${policies.refresh} />`}
  </div>`;
}

function shown(value) {
  if (value === null || value === undefined) return "not set";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

// Sets a policy for the topic, or takes the topic's own value away, so that the namespace's or broker.conf's holds.
function Editor({ topic, row, onClose, onDone }) {
  const [text, setText] = useState(JSON.stringify(row.value, null, 2) ?? "");
  const [error, setError] = useState(null);
  const [isBusy, setIsBusy] = useState(false);
  const path = `${topicPath(topic)}/${row.path.slice(row.path.lastIndexOf("/") + 1)}`;
  const { method } = row;
  const value = parsed(text);
  const change = async (event, request) => {
    event.preventDefault();
    setIsBusy(true);
    try {
      await request();
      onDone();
      onClose();
    } catch (fault) {
      setError(fault);
      setIsBusy(false);
    }
  };
  const set = () =>
    row.query
      ? call(withQuery(path, { [row.query]: value.value }), { method })
      : call(path, { method, body: value.value });
  return html`<${Dialog} title=${`${row.policy} of this topic`} name="policy" onClose=${onClose}>
    <form onSubmit=${(event) => change(event, set)}>
      <p>Now <code>${shown(row.value)}</code>, which comes from ${row.source === "broker" ? "broker.conf" : `the ${row.source}`}.</p>
      <${Field} label="Value for this topic, as JSON" hint=${value.fault}>
        <textarea name="value" rows="6" spellcheck=${false} value=${text} onInput=${(event) => setText(event.target.value)}></textarea>
      </${Field}>
      <p class="note" data-preview="policy">${value.fault ? "" : previewOf(row, value.value)}</p>
      <${Fault} error=${error} />
      <div class="row">
        <${ActionButton} type="submit" tone="primary" isBusy=${isBusy}
          disabled=${value.fault !== undefined}>Set for this topic</${ActionButton}>
        ${row.source === "topic" && row.removable && html`<${ActionButton} tone="danger" isBusy=${isBusy}
          onAct=${(event) => change(event, () => call(path, { method: "DELETE" }))}>Remove from this topic</${ActionButton}>`}
      </div>
    </form>
    <${HowTo} calls=${[`${method} ${path}`, ...(row.source === "topic" ? [`DELETE ${path}`] : [])]}
      commands=${["magnetar admin topicPolicies --help"]} />
  </${Dialog}>`;
}

function previewOf(row, value) {
  return `Sets ${row.policy} of this topic to ${shown(value)}, whatever its namespace and broker.conf say.`;
}

function parsed(text) {
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return { fault: `This is not JSON: ${error.message}` };
  }
}
