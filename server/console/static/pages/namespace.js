// A namespace: its topics with their rates, sizes and backlogs, of which there may be tens of thousands.

import * as format from "../parts/format_rules.js";
import { html, useMemo, useState } from "../parts/library.js";
import { Facts, Fault, HowTo, Panel, Waiting } from "../parts/panels.js";
import { useCall } from "../parts/polling.js";
import { adminPath, withQuery } from "../parts/rest_calls.js";
import { parseTopic, topicLink } from "../parts/routes.js";
import { foundRows } from "../parts/table_rules.js";
import { SearchField, Table } from "../parts/tables.js";
import { topicRows } from "../parts/topic_rows_rules.js";

const NUMBERS_MS = 10_000;
const NAMES_MS = 30_000;

const number = (key, title, show) => ({
  key,
  title,
  isNumber: true,
  value: (row) => row[key],
  show: (row) => show(row[key]),
});

const COLUMNS = [
  {
    key: "topic",
    title: "Topic",
    isWide: true,
    value: (row) => row.label,
    show: (row) => html`<a href=${topicLink(parseTopic(row.topic))}>${row.label}</a>`,
  },
  number("msgRateIn", "In, msg/s", format.rate),
  number("msgRateOut", "Out, msg/s", format.rate),
  number("msgThroughputIn", "In, bytes/s", format.bytes),
  number("msgThroughputOut", "Out, bytes/s", format.bytes),
  number("storageSize", "Stored", format.bytes),
  number("backlog", "Backlog, entries", format.count),
  number("oldestBacklogMessageAgeSeconds", "Oldest", (seconds) =>
    seconds === null ? format.nothing : format.duration(seconds),
  ),
  number("producers", "Producers", format.count),
  number("subscriptions", "Subscr.", format.count),
  number("consumers", "Consumers", format.count),
];

export function Namespace({ tenant, namespace }) {
  const [search, setSearch] = useState("");
  const path = adminPath("namespaces", tenant, namespace);
  const names = useCall(withQuery(`${path}/topics`, { mode: "ALL" }), { every: NAMES_MS });
  const partitioned = useCall(adminPath("persistent", tenant, namespace, "partitioned"), { every: NAMES_MS });
  const numbers = useCall(`${path}/topicTable`, { every: NUMBERS_MS });
  const rows = useMemo(
    () => topicRows(names.value ?? [], partitioned.value ?? [], numbers.value),
    [names.value, partitioned.value, numbers.value],
  );
  const found = useMemo(() => foundRows(rows, search, (row) => row.topic), [rows, search]);
  const isThere = names.value !== undefined;
  return html`<div class="panels">
    <${Panel} title="Topics" wide=${true} aside=${html`<${Found} found=${found.length} all=${rows.length} />
      <${SearchField} label="Search topics" onText=${setSearch} />`}>
      <${Fault} error=${names.error} />
      ${!isThere && !names.error && html`<${Waiting} />`}
      ${
        isThere &&
        html`<${Table}
          name="topics"
          label="Topics"
          columns=${COLUMNS}
          rows=${found}
          rowKey=${(row) => row.topic}
          firstSort=${["topic", "ascending"]}
          empty=${rows.length === 0 ? "The namespace has no topic." : "No topic has such a name."}
        />`
      }
      <${Fault} error=${numbers.error} />
      <${HowTo} calls=${[`GET ${path}/topics?mode=ALL`, `GET ${path}/topicTable`]}
        commands=${[`magnetar admin topics list ${tenant}/${namespace}`, `magnetar admin topics stats ${tenant}/${namespace}/TOPIC`]} />
    </${Panel}>
    <${Policies} tenant=${tenant} namespace=${namespace} />
  </div>`;
}

function Found({ found, all }) {
  return html`<span role="status"
    >${found === all ? format.plural(all, "topic") : `${format.count(found)} of ${format.plural(all, "topic")}`}</span
  >`;
}

// What was set for the namespace. A policy that is not set comes from broker.conf.
function Policies({ tenant, namespace }) {
  const path = adminPath("namespaces", tenant, namespace);
  const policies = useCall(path);
  const shown = useMemo(() => setPolicies(policies.value ?? {}), [policies.value]);
  return html`<${Panel} title="Policies of the namespace" wide=${true}>
    <${Fault} error=${policies.error} />
    ${policies.value && html`<${Facts} rows=${shown} />`}
    <${HowTo} calls=${[`GET ${path}`]} commands=${[`magnetar admin namespaces policies ${tenant}/${namespace}`]} />
  </${Panel}>`;
}

const UNSET = [null, false, "", -1, "UNDEFINED", "None"];

function setPolicies(policies) {
  return Object.entries(policies)
    .filter(([, value]) => isSet(value))
    .map(([name, value]) => [name.replaceAll("_", " "), html`<code>${shown(name, value)}</code>`]);
}

// A value that only holds values which are not set is not set either.
function isSet(value) {
  return typeof value === "object" && value !== null ? Object.values(value).some(isSet) : !UNSET.includes(value);
}

function shown(name, value) {
  if (name === "bundles") return format.count(value.numBundles);
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
