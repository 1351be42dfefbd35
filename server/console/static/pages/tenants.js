// The tenants of the cluster, and one tenant with its namespaces.

import { plural } from "../parts/format_rules.js";
import { html, useState } from "../parts/library.js";
import { Facts, HowTo, Loaded, Panel } from "../parts/panels.js";
import { useCall } from "../parts/polling.js";
import { adminPath } from "../parts/rest_calls.js";
import { link } from "../parts/routes.js";
import { foundRows } from "../parts/table_rules.js";
import { SearchField, Table } from "../parts/tables.js";

const TENANT_COLUMNS = [
  {
    key: "tenant",
    title: "Tenant",
    isWide: true,
    value: (name) => name,
    show: (name) => html`<a href=${link("tenants", name)}>${name}</a>`,
  },
];

export function Tenants() {
  const [search, setSearch] = useState("");
  const tenants = useCall(adminPath("tenants"));
  return html`<div class="panels">
    <${Panel} title="Tenants" wide=${true} aside=${html`<${SearchField} label="Search tenants" onText=${setSearch} />`}>
      <${Loaded} from=${tenants}>${(names) =>
        html`<${Table}
          name="tenants"
          label="Tenants"
          columns=${TENANT_COLUMNS}
          rows=${foundRows(names, search, String)}
          rowKey=${String}
          firstSort=${["tenant", "ascending"]}
          empty="No tenant has such a name."
        />`}</${Loaded}>
      ${tenants.error?.isDenied && html`<p class="note">Only a superuser sees all tenants. Type the name of a topic above to go to it.</p>`}
      <${HowTo} calls=${["GET admin/v2/tenants"]} commands=${["magnetar admin tenants list"]} />
    </${Panel}>
  </div>`;
}

export function Tenant({ tenant }) {
  const path = adminPath("tenants", tenant);
  const about = useCall(path);
  const spaces = useCall(adminPath("namespaces", tenant));
  return html`<div class="panels">
    <${Panel} title="Namespaces" wide=${true}>
      <${Loaded} from=${spaces}>${(names) => html`<${Namespaces} names=${names} />`}</${Loaded}>
      <${HowTo} calls=${[`GET ${adminPath("namespaces", tenant)}`]} commands=${[`magnetar admin namespaces list ${tenant}`]} />
    </${Panel}>
    <${Panel} title="About the tenant">
      <${Loaded} from=${about}>${(info) =>
        html`<${Facts}
          rows=${[
            ["Administrators", (info.adminRoles ?? []).join(", ") || "superusers only"],
            ["Clusters", (info.allowedClusters ?? []).join(", ")],
          ]}
        />`}</${Loaded}>
      <${HowTo} calls=${[`GET ${path}`]} commands=${[`magnetar admin tenants get ${tenant}`]} />
    </${Panel}>
  </div>`;
}

function Namespaces({ names }) {
  const columns = [
    {
      key: "namespace",
      title: "Namespace",
      isWide: true,
      value: (name) => name,
      show: (name) => html`<a href=${link("namespaces", ...name.split("/"))}>${name.slice(name.indexOf("/") + 1)}</a>`,
    },
  ];
  return html`<${Table}
    name="namespaces"
    label=${plural(names.length, "namespace")}
    columns=${columns}
    rows=${names}
    rowKey=${String}
    firstSort=${["namespace", "ascending"]}
    empty="The tenant has no namespace."
  />`;
}
