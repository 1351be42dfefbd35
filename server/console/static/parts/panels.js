// The pieces that pages are made of: panels, facts, badges, faults, tabs, and the note that says how to get the same
// numbers without the console.

import { html, useEffect, useRef, useState } from "./library.js";
import { shellWord } from "./format_rules.js";
import { useCall } from "./polling.js";
import { fullName, topicLink } from "./routes.js";

// A part of a page with a title. `aside` stands at the right of the title.
export function Panel({ title, aside, children, wide = false, name }) {
  return html`<section class=${wide ? "panel wide" : "panel"} data-panel=${name ?? title}>
    ${
      title &&
      html`<header>
        <h2>${title}</h2>
        ${aside && html`<div class="aside">${aside}</div>`}
      </header>`
    }
    ${children}
  </section>`;
}

// A list of names and values: rows is [[name, value], …]; rows whose value is undefined are left out.
export function Facts({ rows }) {
  const shown = rows.filter(([, value]) => value !== undefined);
  return html`<dl class="facts">
    ${shown.map(
      ([name, value]) =>
        html`<div key=${name}>
          <dt>${name}</dt>
          <dd>${value}</dd>
        </div>`,
    )}
  </dl>`;
}

// A large number with its unit and what it means.
export function Figure({ name, value, detail }) {
  return html`<div class="figure" data-figure=${name}>
    <span class="name">${name}</span
    ><span class="value">${value}</span>${detail && html`<span class="detail">${detail}</span>`}
  </div>`;
}

// `tone` is "good", "warn", "bad" or "" for a neutral word. The word itself always says what the colour says.
export function Badge({ tone = "", children }) {
  return html`<span class=${`badge ${tone}`}>${children}</span>`;
}

// What is shown in place of something that could not be loaded. `topic` adds the way to the broker that has the topic.
export function Fault({ error, topic }) {
  if (!error) return null;
  if (error.status === 307 && topic) return html`<${OtherBroker} topic=${topic} />`;
  const tone = error.isDenied ? "note" : "fault";
  return html`<p class=${tone} role="alert">${error.isDenied ? "You may not see this. " : ""}${error.message}</p>`;
}

// In a cluster the owner of a topic serves its calls, and a page may only ask the broker that it came from.
function OtherBroker({ topic }) {
  const path = ["lookup", "v2", "topic", topic.domain, topic.tenant, topic.namespace, topic.name];
  const { value, error } = useCall(path.map(encodeURIComponent).join("/"));
  if (error) return html`<${Fault} error=${error} />`;
  if (value === undefined) return html`<${Waiting} />`;
  const url = value.httpUrl || value.httpUrlTls;
  return html`<p class="note">
    Another broker of the cluster owns this topic: ${" "}<a href=${`${url}/${topicLink(topic)}`}
      >open its console at ${url}</a
    >
  </p>`;
}

export function Waiting({ what = "Loading" }) {
  return html`<p class="waiting" role="status">${what}…</p>`;
}

// Shows `children(value)` as soon as the call has an answer; a fault stands above the last answer that there was.
export function Loaded({ from, topic, children }) {
  return html`<${Fault} error=${from.error} topic=${topic} />
    ${from.value === undefined ? !from.error && html`<${Waiting} />` : children(from.value)}`;
}

// Links that look like tabs: tabs is [[title, address, is open], …].
export function Tabs({ label, tabs }) {
  const bar = useRef(null);
  const open = tabs.findIndex(([, , isOpen]) => isOpen);
  // In a narrow window the open tab may stand outside of what is seen of the bar.
  useEffect(() => {
    const tab = bar.current.children[open];
    if (tab) bar.current.scrollLeft = tab.offsetLeft + tab.offsetWidth - bar.current.clientWidth;
  }, [open]);
  return html`<nav class="tabs" ref=${bar} aria-label=${label}>
    ${tabs.map(([title, href, isOpen]) => html`<a key=${title} href=${href} aria-current=${isOpen ? "page" : undefined}>${title}</a>`)}
  </nav>`;
}

// Says how to get what a page shows: the REST calls ("GET admin/v2/…" or "POST …") and the commands of a terminal.
export function HowTo({ calls, commands = [] }) {
  const base = document.baseURI.split(/[?#]/)[0];
  return html`<details class="how-to">
    <summary>How do I get this?</summary>
    <div class="how-to-lines">
      ${calls.map((each) => {
        const [method, path] = each.split(" ");
        const curl = `curl ${method === "GET" ? "" : `-X ${method} `}${shellWord(base + path)}`;
        return html`<${Line}
          key=${each}
          shown=${`${method} /${path}`}
          copied=${curl}
          title="Copy as a curl command"
        />`;
      })}
      ${commands.map((each) => html`<${Line} key=${each} shown=${each} copied=${each} title="Copy the command" />`)}
    </div>
  </details>`;
}

function Line({ shown, copied, title }) {
  const [isCopied, setIsCopied] = useState(false);
  const copy = () =>
    navigator.clipboard?.writeText(copied).then(
      () => setIsCopied(true),
      () => {},
    );
  return html`<div class="how-to-line">
    <code>${shown}</code
    ><button type="button" class="quiet" title=${title} onClick=${copy}>${isCopied ? "copied" : "copy"}</button>
  </div>`;
}

// The words that name a topic in a command.
export function topicWord(topic) {
  return shellWord(topic.domain === "persistent" ? fullName(topic).slice("persistent://".length) : fullName(topic));
}
