// Shows which consumer of a Key_Shared subscription has which hashes of keys.

import * as format from "../parts/format_rules.js";
import { html } from "../parts/library.js";

// The hashes of keys go up to this one (StickyKeyConsumerSelector.DEFAULT_RANGE_SIZE); 0 stands for no key.
const HASHES = 65_535;
const COLOURS = ["accent", "second", "third", "good", "warn", "bad", "muted"];

export function KeyMap({ consumers }) {
  const holders = consumers.filter((each) => each.keyHashRangeArrays?.length > 0);
  if (holders.length === 0) return html`<p class="note">No consumer has keys now.</p>`;
  const shares = holders.map((each) =>
    each.keyHashRangeArrays.reduce((sum, [first, last]) => sum + last - first + 1, 0),
  );
  return html`<svg
      class="map"
      viewBox="0 0 1000 26"
      height="26"
      preserveAspectRatio="none"
      role="img"
      aria-label=${holders.map((each, index) => `${each.consumerName} has ${percent(shares[index])} of the keys`).join(", ")}
      data-map="keys"
    >
      <rect class="fill-line" width="1000" height="26" />
      ${holders.map((each, index) =>
        each.keyHashRangeArrays.map(
          ([first, last]) =>
            html`<rect
              key=${`${index}/${first}`}
              class=${`fill-${colourOf(index)}`}
              x=${(first / HASHES) * 1000}
              width=${Math.max(0.6, ((last - first + 1) / HASHES) * 1000)}
              height="26"
            >
              <title>${`${each.consumerName}: hashes ${first} to ${last}`}</title>
            </rect>`,
        ),
      )}
    </svg>
    <div class="legend">
      ${holders.map((each, index) => html`<span key=${each.consumerName}>
        <i class=${`swatch ${colourOf(index)}`}></i>${each.consumerName}: ${percent(shares[index])} of the hashes
        ${` ${rangesOf(each)}`}</span>`)}
    </div>`;
}

function colourOf(index) {
  return COLOURS[index % COLOURS.length];
}

function rangesOf(consumer) {
  return `in ${format.plural(consumer.keyHashRangeArrays.length, "range")}`;
}

function percent(hashes) {
  return `${((hashes / HASHES) * 100).toFixed(1)} %`;
}
