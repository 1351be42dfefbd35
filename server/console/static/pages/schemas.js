// The versions of a topic's schema, and what changed from one to another.

import { differenceOf, readable } from "../parts/diff_rules.js";
import { Field } from "../parts/dialogs.js";
import * as format from "../parts/format_rules.js";
import { html, useMemo, useState } from "../parts/library.js";
import { Facts, HowTo, Loaded, Panel, topicWord } from "../parts/panels.js";
import { useCall } from "../parts/polling.js";
import { adminPath } from "../parts/rest_calls.js";

export function Schemas({ topic }) {
  const path = adminPath("schemas", topic.tenant, topic.namespace, topic.name, "schemas");
  const schemas = useCall(path);
  const howTo = html`<${HowTo}
    calls=${[`GET ${path}`]}
    commands=${[`magnetar admin schemas get --all-version ${topicWord(topic)}`]}
  />`;
  const nothing = html`<div class="panels"><${Panel} title="Schemas" wide=${true}>
    <p class="empty">The topic has no schema: its messages are bytes.</p>${howTo}
  </${Panel}></div>`;
  if (schemas.error?.status === 404) return nothing;
  return html`<${Loaded} from=${schemas}>${(value) => {
    const versions = [...(value.getSchemaResponses ?? [])].sort((left, right) => right.version - left.version);
    return versions.length === 0 ? nothing : html`<${Versions} versions=${versions} howTo=${howTo} />`;
  }}</${Loaded}>`;
}

// The newest version first; the version before it is what it is compared with, until the user chooses another.
function Versions({ versions, howTo }) {
  const [chosen, setChosen] = useState(versions[0].version);
  const [base, setBase] = useState(versions[1]?.version ?? null);
  const shown = versions.find((each) => each.version === chosen) ?? versions[0];
  const compared = versions.find((each) => each.version === base && base !== chosen);
  const lines = useMemo(
    () => (compared ? differenceOf(readable(compared.data), readable(shown.data)) : null),
    [shown, compared],
  );
  const option = (each) =>
    html`<option key=${each.version} value=${each.version}>
      ${each.version} (${each.type}, ${format.time(each.timestamp)})
    </option>`;
  return html`<div class="panels">
    <${Panel} title=${`Version ${shown.version}`} wide=${true} name="schema" aside=${format.plural(versions.length, "version")}>
      <div class="row">
        <${Field} label="Version"><select name="version" value=${chosen}
          onChange=${(event) => setChosen(Number(event.target.value))}>${versions.map(option)}</select></${Field}>
        ${
          versions.length > 1 &&
          html`<${Field} label="Compared with"><select name="base" value=${base ?? ""}
            onChange=${(event) => setBase(event.target.value === "" ? null : Number(event.target.value))}>
          <option value="">nothing</option>${versions.map(option)}</select></${Field}>`
        }
      </div>
      ${lines === null ? html`<pre tabindex="0" data-part="schema">${readable(shown.data)}</pre>` : html`<${Difference} lines=${lines} />`}
      ${howTo}
    </${Panel}>
    <${Panel} title="About this version">
      <${Facts} rows=${[
        ["Type", shown.type],
        ["Registered", format.time(shown.timestamp)],
        [
          "Properties",
          Object.entries(shown.properties ?? {})
            .map(([key, text]) => `${key}=${text}`)
            .join(", ") || "none",
        ],
      ]} />
      ${howTo}
    </${Panel}>
  </div>`;
}

const MARKS = { same: " ", added: "+", removed: "−" };

function Difference({ lines }) {
  const counted = (kind) => lines.filter((each) => each.kind === kind).length;
  const [came, went] = [counted("added"), counted("removed")];
  return html`<p class="hint" role="status">
      ${came + went === 0 ? "The definitions are the same." : `${format.plural(came, "line")} came, ${format.plural(went, "line")} went.`}
    </p>
    <div class="difference" tabindex="0" role="group" aria-label="Difference">
      ${lines.map((each, index) => html`<div key=${index} class=${each.kind}
        data-change=${each.kind}>${MARKS[each.kind]} ${each.text}</div>`)}
    </div>`;
}
