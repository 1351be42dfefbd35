// The addresses of pages: the part of the URL behind `#`. Every segment is encoded, so names may hold any character.

import { Store } from "./store.js";

export const route = new Store(readRoute(location.hash));

addEventListener("hashchange", () => {
  route.value = readRoute(location.hash);
});

// "#/topics/persistent/acme/shop/orders/ledgers" -> {segments: ["topics", …], query: URLSearchParams}
export function readRoute(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const segments = path
    .split("/")
    .filter((segment) => segment !== "")
    .map(decodedSegment);
  return { segments, query: new URLSearchParams(query), hash };
}

function decodedSegment(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function link(...segments) {
  return `#/${segments.map(encodeURIComponent).join("/")}`;
}

export function topicLink(topic, ...more) {
  return link("topics", topic.domain, topic.tenant, topic.namespace, topic.name, ...more);
}

export function goTo(hash) {
  location.hash = hash;
}

// Reads a topic's name as the tools do: "orders", "acme/shop/orders" or "persistent://acme/shop/orders". Returns null
// for a text that is no such name.
export function parseTopic(text) {
  const trimmed = text.trim();
  const full = /^(persistent|non-persistent):\/\/([^/]+)\/([^/]+)\/(.+)$/s.exec(trimmed);
  if (full !== null) return { domain: full[1], tenant: full[2], namespace: full[3], name: full[4] };
  const short = /^([^/:]+)\/([^/:]+)\/(.+)$/s.exec(trimmed);
  if (short !== null) return { domain: "persistent", tenant: short[1], namespace: short[2], name: short[3] };
  if (trimmed === "" || trimmed.includes("/")) return null;
  return { domain: "persistent", tenant: "public", namespace: "default", name: trimmed };
}

export function fullName(topic) {
  return `${topic.domain}://${topic.tenant}/${topic.namespace}/${topic.name}`;
}
