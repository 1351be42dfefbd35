// The frame around every page: where one is, the ways to the other pages, who is logged in, and whether the server is
// there. It chooses the page that the address names.

import { html, useEffect, useErrorBoundary, useRef, useState } from "../parts/library.js";
import { authorization, logOut, shownIdentity } from "../parts/login_session.js";
import { call, isServerThere } from "../parts/rest_calls.js";
import { goTo, link, parseTopic, route, topicLink } from "../parts/routes.js";
import { useStore } from "../parts/store.js";
import { Bookies } from "./bookies.js";
import { Brokers } from "./brokers.js";
import { Login } from "./login.js";
import { Namespace } from "./namespace.js";
import { Overview } from "./overview.js";
import { Subscription } from "./subscription.js";
import { Tenant, Tenants } from "./tenants.js";
import { Topic } from "./topic.js";

const PLACES = [
  ["Overview", "#/", (first) => first === undefined],
  ["Topics", "#/tenants", (first) => ["tenants", "namespaces", "topics"].includes(first)],
  ["Brokers", "#/brokers", (first) => first === "brokers"],
  ["Bookies", "#/bookies", (first) => first === "bookies"],
];

// Returns {page, title, crumbs, content} for an address. An address that no page has leads to a page that says so.
function pageOf({ segments, query, hash }) {
  const [first, ...rest] = segments;
  if (first === undefined) return { page: "overview", title: "Overview", content: html`<${Overview} />` };
  if (first === "tenants" && rest.length === 0)
    return { page: "tenants", title: "Tenants", content: html`<${Tenants} />` };
  if (first === "tenants" && rest.length === 1) {
    const [tenant] = rest;
    return {
      page: "tenant",
      title: tenant,
      crumbs: [["Tenants", "#/tenants"]],
      content: html`<${Tenant} key=${hash} tenant=${tenant} />`,
    };
  }
  if (first === "namespaces" && rest.length === 2) {
    const [tenant, namespace] = rest;
    const crumbs = [
      ["Tenants", "#/tenants"],
      [tenant, link("tenants", tenant)],
    ];
    const content = html`<${Namespace} key=${hash} tenant=${tenant} namespace=${namespace} />`;
    return { page: "namespace", title: namespace, crumbs, content };
  }
  if (first === "topics" && rest.length >= 4) return topicPage(rest, query);
  if (first === "brokers") return { page: "brokers", title: "Brokers", content: html`<${Brokers} />` };
  if (first === "bookies") return { page: "bookies", title: "Bookies", content: html`<${Bookies} />` };
  return {
    page: "unknown",
    title: "No such page",
    content: html`<p class="note">The address ${hash} leads nowhere.</p>`,
  };
}

function topicPage([domain, tenant, namespace, name, tab = "", ...more], query) {
  const topic = { domain, tenant, namespace, name };
  const crumbs = [
    ["Tenants", "#/tenants"],
    [tenant, link("tenants", tenant)],
    [namespace, link("namespaces", tenant, namespace)],
  ];
  const key = topicLink(topic);
  if (tab === "subscriptions" && more.length > 0) {
    const content = html`<${Subscription} key=${key + more[0]} topic=${topic} name=${more[0]} />`;
    return { page: "subscription", title: more[0], crumbs: [...crumbs, [name, key]], content };
  }
  const content = html`<${Topic} key=${key} topic=${topic} tab=${tab} rest=${more} query=${query} />`;
  return { page: tab === "" ? "topic" : tab, title: name, crumbs, content };
}

export function Frame() {
  const at = useStore(route);
  const { page, title, crumbs = [], content } = pageOf(at);
  const main = useRef(null);
  const place = at.segments.join("/");
  const first = useRef(true);
  useEffect(() => {
    document.title = `${title} · Magnetar`;
    // After a click on a link, the keyboard and a screen reader go on at the new page.
    if (!first.current) main.current.focus({ preventScroll: true });
    first.current = false;
    scrollTo(0, 0);
  }, [place]);
  return html`
    <a class="skip" href=${at.hash || "#/"} onClick=${(event) => (event.preventDefault(), main.current.focus())}>Skip to the page</a>
    <${TopBar} first=${at.segments[0]} />
    <${ServerAway} />
    <main data-page=${page} tabindex="-1" ref=${main}>
      <div class="page-head">
        ${
          crumbs.length > 0 &&
          html`<nav class="crumbs" aria-label="Where you are">
            ${crumbs.map(([name, href]) => html`<a key=${href} href=${href}>${name}</a><span aria-hidden="true">/</span>`)}
          </nav>`
        }
        <h1>${title}</h1>
      </div>
      <${Guarded} key=${place}>${content}</${Guarded}>
    </main>
    <${Login} />
  `;
}

// A fault in one page is told there, and the frame stays.
function Guarded({ children }) {
  const [error, reset] = useErrorBoundary((fault) => console.error(fault));
  if (!error) return children;
  return html`<p class="fault" role="alert">This page cannot be drawn: ${error.message}</p>
    <button type="button" class="action" onClick=${reset}>Try again</button>`;
}

function TopBar({ first }) {
  const [cluster, setCluster] = useState("");
  const identity = shownIdentity(useStore(authorization));
  useEffect(() => {
    call("admin/v2/clusters").then(
      (names) => setCluster(names.filter((name) => name !== "global").join(", ")),
      () => {},
    );
  }, []);
  return html`<header class="top-bar">
    <a class="brand" href="#/"><img src="console/icon.svg" alt="" width="20" height="20" />Magnetar</a>
    ${cluster && html`<span class="cluster" title="Cluster">${cluster}</span>`}
    <nav aria-label="Pages">
      ${PLACES.map(([name, href, isHere]) => html`<a key=${name} href=${href}
        aria-current=${isHere(first) ? "page" : undefined}>${name}</a>`)}
    </nav>
    <${GoToTopic} />
    ${
      identity
        ? html`<button type="button" class="quiet" onClick=${logOut}>Log out ${identity}</button>`
        : html`<button type="button" class="quiet" onClick=${logOut}>Log in</button>`
    }
  </header>`;
}

function GoToTopic() {
  const [text, setText] = useState("");
  const go = (event) => {
    event.preventDefault();
    const topic = parseTopic(text);
    if (topic === null) return;
    setText("");
    goTo(topicLink(topic));
  };
  return html`<form class="go-to" role="search" onSubmit=${go}>
    <input
      type="search"
      aria-label="Go to a topic"
      placeholder="Go to tenant/namespace/topic"
      value=${text}
      onInput=${(event) => setText(event.target.value)}
    />
  </form>`;
}

function ServerAway() {
  if (useStore(isServerThere)) return null;
  return html`<p class="away" role="status">
    The server does not answer. What you see is from before; the page goes on by itself.
  </p>`;
}
