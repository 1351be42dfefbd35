// The brokers of the cluster, and the bundles that each of them owns.

import { html, useState } from "../parts/library.js";
import { Badge, HowTo, Loaded, Panel } from "../parts/panels.js";
import { useCall } from "../parts/polling.js";
import { adminPath } from "../parts/rest_calls.js";
import { link } from "../parts/routes.js";
import { foundRows } from "../parts/table_rules.js";
import { SearchField, Table } from "../parts/tables.js";

const LOOK_MS = 10_000;

export function Brokers() {
  const clusters = useCall(adminPath("clusters"));
  return html`<${Loaded} from=${clusters}>${(names) =>
    html`<div class="panels">
      ${names.filter((name) => name !== "global").map((cluster) => html`<${Cluster} key=${cluster} cluster=${cluster} />`)}
    </div>`}</${Loaded}>`;
}

function Cluster({ cluster }) {
  const path = adminPath("brokers", cluster);
  const brokers = useCall(path, { every: LOOK_MS });
  const leader = useCall(adminPath("brokers", "leaderBroker"), { every: LOOK_MS });
  const [chosen, setChosen] = useState(null);
  const leaderId = leader.value?.brokerId ?? leader.value?.serviceUrl?.replace(/^https?:\/\//, "");
  const columns = [
    {
      key: "broker",
      title: "Broker",
      isWide: true,
      value: (name) => name,
      show: (name) =>
        html`<button type="button" class="link" aria-pressed=${chosen === name} onClick=${() => setChosen(name)}>
          ${name}
        </button>`,
    },
    {
      key: "role",
      title: "Role",
      value: (name) => (name === leaderId ? "leader" : ""),
      show: (name) => name === leaderId && html`<${Badge} tone="good">leader</${Badge}>`,
    },
  ];
  return html`
    <${Panel} title=${`Brokers of ${cluster}`} name="brokers">
      <${Loaded} from=${brokers}>${(names) =>
        html`<${Table}
          name="brokers"
          label="Brokers"
          columns=${columns}
          rows=${names}
          rowKey=${String}
          firstSort=${["broker", "ascending"]}
          empty="No broker of this cluster is known here."
        />`}</${Loaded}>
      <${HowTo} calls=${[`GET ${path}`, "GET admin/v2/brokers/leaderBroker"]}
        commands=${[`magnetar admin brokers list ${cluster}`, "magnetar admin brokers leader-broker"]} />
    </${Panel}>
    ${brokers.value?.length > 0 && html`<${Bundles} key=${chosen} cluster=${cluster} broker=${chosen ?? brokers.value[0]} />`}`;
}

const BUNDLE_COLUMNS = [
  {
    key: "namespace",
    title: "Namespace",
    isWide: true,
    value: (row) => row.namespace,
    show: (row) => html`<a href=${link("namespaces", ...row.namespace.split("/"))}>${row.namespace}</a>`,
  },
  { key: "bundle", title: "Bundle", value: (row) => row.bundle, show: (row) => html`<code>${row.bundle}</code>` },
  {
    key: "active",
    title: "State",
    value: (row) => (row.isActive ? "active" : "inactive"),
    show: (row) =>
      html`<${Badge} tone=${row.isActive ? "good" : "warn"}>${row.isActive ? "active" : "inactive"}</${Badge}>`,
  },
  { key: "assignment", title: "Assignment", value: (row) => row.assignment },
];

function Bundles({ cluster, broker }) {
  const path = adminPath("brokers", cluster, broker, "ownedNamespaces");
  const owned = useCall(path, { every: LOOK_MS });
  const [search, setSearch] = useState("");
  return html`<${Panel} title=${`Bundles of ${broker}`} wide=${true} name="bundles"
    aside=${html`<${SearchField} label="Search bundles" onText=${setSearch} />`}>
    <${Loaded} from=${owned}>${(value) => {
      const rows = Object.entries(value).map(([name, status]) => {
        const at = name.lastIndexOf("/");
        return {
          name,
          namespace: name.slice(0, at),
          bundle: name.slice(at + 1),
          isActive: status.is_active,
          assignment: status.broker_assignment ?? "",
        };
      });
      return html`<${Table}
        name="bundles"
        label="Bundles"
        columns=${BUNDLE_COLUMNS}
        rows=${foundRows(rows, search, (row) => row.name)}
        rowKey=${(row) => row.name}
        firstSort=${["namespace", "ascending"]}
        empty="This broker owns no bundle."
      />`;
    }}</${Loaded}>
    <${HowTo} calls=${[`GET ${path}`]} commands=${[`magnetar admin brokers namespaces ${cluster} --url ${broker}`]} />
  </${Panel}>`;
}
