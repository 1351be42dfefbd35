// The ledgers of a topic: for each one its fragments over its bookies as a map, and in words what keeps it.

import * as format from "../parts/format_rules.js";
import { html } from "../parts/library.js";
import { Badge, Facts, HowTo, Loaded, Panel, topicWord } from "../parts/panels.js";
import { useCall } from "../parts/polling.js";
import { topicPath } from "../parts/rest_calls.js";

const LOOK_MS = 10_000;

export function Ledgers({ topic }) {
  const path = topicPath(topic, "ledgers");
  const ledgers = useCall(path, { every: LOOK_MS });
  const howTo = html`<${HowTo} calls=${[`GET ${path}`]} commands=${[`magnetar ledgers ${topicWord(topic)}`]} />`;
  return html`<${Loaded} from=${ledgers} topic=${topic}>${(value) => html`<div class="panels">
    <${Panel} title="Ledgers" wide=${true} aside=${`${format.plural(value.entries, "entry", "entries")}, ${format.bytes(value.sizeBytes)}`}>
      <${Sizes} ledgers=${value.ledgers} />
      ${value.ledgers.map((each) => html`<${Ledger} key=${each.ledgerId} ledger=${each} />`)}
      ${value.ledgersLeftOut > 0 &&
        html`<p class="note">The topic has ${format.plural(value.ledgersLeftOut, "more ledger")}, not listed here.</p>`}
      ${howTo}
    </${Panel}>
    <${Panel} title="Other ledgers of this topic" name="others">
      <${Facts} rows=${[
        [
          "State of subscriptions",
          value.cursorLedgers.map((each) => `${each.cursor}: ${each.ledgerId}`).join(", ") || "none",
        ],
        ["Compacted messages", value.compactedLedgerId ?? "none"],
        ["Schemas", (value.schemaLedgers ?? []).join(", ") || "none"],
        [
          "Waiting for deletion",
          (value.waitingForDeletion ?? []).map((each) => each.ledgerId ?? each).join(", ") || "none",
        ],
      ]} />
      ${howTo}
    </${Panel}>
    ${
      value.readers.length > 0 &&
      html`<${Panel} title="Readers" name="readers">
      <p class="hint">Readers keep no ledger.</p>
      <ul class="sentences">${value.readers.map((each, index) => html`<li key=${index}>${Object.values(each).join(" ")}</li>`)}</ul>
      ${howTo}
    </${Panel}>`
    }
  </div>`}</${Loaded}>`;
}

// All ledgers side by side, as wide as their bytes.
function Sizes({ ledgers }) {
  if (ledgers.length < 2) return null;
  return html`<div class="lane" role="img" aria-label="The ledgers by size, oldest first">
    ${ledgers.map((each) => html`<span key=${each.ledgerId} class="has"
      style=${{ flexGrow: each.sizeBytes + 1, flexBasis: 0 }} title=${`Ledger ${each.ledgerId}: ${format.bytes(each.sizeBytes)}`}></span>`)}
  </div>`;
}

function Ledger({ ledger }) {
  return html`<section class="ledger" data-ledger=${ledger.ledgerId} aria-label=${`Ledger ${ledger.ledgerId}`}>
    <div class="ledger-title">
      <strong>Ledger ${ledger.ledgerId}</strong>
      <${Badge} tone=${ledger.isOpen ? "good" : ""}>${(ledger.state ?? (ledger.isOpen ? "open" : "closed")).toLowerCase()}</${Badge}>
      <span>${format.plural(ledger.entries, "entry", "entries")}, ${format.bytes(ledger.sizeBytes)}</span>
      ${ledger.ensembleSize &&
        html`<span class="hint">ensemble ${ledger.ensembleSize}, write ${ledger.writeQuorum}, ack ${ledger.ackQuorum}</span>`}
      ${ledger.closedMs && html`<span class="hint">closed ${format.time(ledger.closedMs)}</span>`}
    </div>
    ${ledger.fault && html`<p class="fault">${ledger.fault}</p>`}
    <${Fragments} fragments=${ledger.fragments ?? []} />
    <ul class="sentences">
      ${ledger.keptBy.map((each, index) => html`<li key=${index} data-kept-by=${each.by}><${Badge}>${each.by}</${Badge}>
        <span>${each.sentence}</span></li>`)}
      ${ledger.keptBy.length === 0 && html`<li><${Badge} tone="good">free</${Badge}>
        <span>Nothing keeps it: it goes at the next trimming.</span></li>`}
      ${ledger.keptByMoreCursors > 0 && html`<li><${Badge}>cursor</${Badge}>
        <span>${format.plural(ledger.keptByMoreCursors, "more subscription")} keep it.</span></li>`}
    </ul>
  </section>`;
}

// A lane for each bookie; a fragment is as wide as its entries, and coloured where the bookie is in its ensemble.
function Fragments({ fragments }) {
  const bookies = [...new Set(fragments.flatMap((each) => each.bookies))].sort();
  if (bookies.length === 0) return null;
  const width = (each) => ({ flexGrow: Math.max(each.entries ?? 0, 0.001), flexBasis: 0 });
  return html`<div class="bars fragments">
    ${bookies.map(
      (bookie) =>
        html`<span key=${bookie} class="lane-name mono">${bookie}</span>
          <div
            key=${`lane ${bookie}`}
            class="lane"
            role="img"
            data-bookie=${bookie}
            aria-label=${laneOf(bookie, fragments)}
          >
            ${fragments.map((each) =>
              html`<span key=${each.firstEntry} class=${each.bookies.includes(bookie) ? "has" : ""} style=${width(each)}
              title=${`Entries ${each.firstEntry} to ${each.lastEntry ?? "…"}`}></span>`)}
          </div>
          <span></span>`,
    )}
    <span></span>
    <div class="lane-scale">
      ${fragments.map((each) => html`<span key=${each.firstEntry} style=${width(each)}>${each.firstEntry}</span>`)}
    </div>
    <span></span>
  </div>`;
}

function laneOf(bookie, fragments) {
  const here = fragments.filter((each) => each.bookies.includes(bookie)).length;
  return `Bookie ${bookie} is in ${format.count(here)} of ${format.plural(fragments.length, "fragment")}`;
}
