// Makes REST calls. Every address is relative to the page, so the console works behind any path prefix.

import { askForLogin, authorization } from "./login_session.js";
import { Store } from "./store.js";

// Whether the server answers: false from a call that reached nobody until a call that is answered again.
export const isServerThere = new Store(true);

// How often the server came back. A page asks for everything anew then, instead of waiting for its next turn.
export const serverReturns = new Store(0);

const TIMEOUT_MS = 30_000;

// How the reason of a 401 begins when the server knows the caller, who lacks a permission (server/web/authorization.py).
// Any other 401 asks for a login.
const NOT_PERMITTED = ["Unauthorized to", "Don't have permission", "This operation requires"];

// A call that failed. `status` is 0 when no answer came; `isDenied` says that the user lacks a permission.
class CallFailed extends Error {
  constructor(status, reason, isDenied = false) {
    super(reason);
    this.status = status;
    this.isDenied = isDenied;
  }
}

// Returns the path of an admin call; each segment is encoded, so names may hold any character.
export function adminPath(...segments) {
  return `admin/v2/${segments.map(encodeURIComponent).join("/")}`;
}

export function topicPath(topic, ...more) {
  return adminPath(topic.domain, topic.tenant, topic.namespace, topic.name, ...more);
}

// Returns a path with a query. Parameters without a value (undefined, null or "") are left out.
export function withQuery(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}

// Sends a request and returns the response, whatever its status is. Raises CallFailed when no answer comes.
export async function request(path, { method = "GET", body, signal, headers = {} } = {}) {
  const all = { ...headers };
  if (authorization.value) all.Authorization = authorization.value;
  if (body !== undefined) all["Content-Type"] = "application/json";
  try {
    const response = await fetch(new URL(path, document.baseURI), {
      method,
      headers: all,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      redirect: "manual",
      cache: "no-store",
      credentials: "same-origin",
    });
    if (!isServerThere.value) serverReturns.value += 1;
    isServerThere.value = true;
    return response;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (error.name !== "TimeoutError") isServerThere.value = false;
    const reason = error.name === "TimeoutError" ? "The server took too long to answer" : "The server does not answer";
    throw new CallFailed(0, reason);
  }
}

// Makes a call and returns what its answer holds: a value for JSON, a text for anything else, undefined for an empty
// body. Raises CallFailed for every answer that is not a success.
export async function call(path, options = {}) {
  const text = await withDeadline(options.signal, async (signal) => {
    const response = await request(path, { ...options, signal });
    await checkAnswer(response);
    return response.text();
  });
  return text === "" ? undefined : parsed(text);
}

// Returns what `work(signal)` brings. The signal is aborted with `parent`, and after TIMEOUT_MS. Nothing stays behind at
// the parent, which a page that polls for days has for all of its calls.
async function withDeadline(parent, work) {
  const own = new AbortController();
  const stop = () => own.abort(parent.reason);
  const timer = setTimeout(() => own.abort(new DOMException("The deadline passed", "TimeoutError")), TIMEOUT_MS);
  parent?.addEventListener("abort", stop);
  if (parent?.aborted) stop();
  try {
    return await work(own.signal);
  } finally {
    clearTimeout(timer);
    parent?.removeEventListener("abort", stop);
  }
}

// Java's broker sends plain words with the type of JSON, and so does this one; they are returned as they are.
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

// Returns when the answer is a success. Otherwise raises CallFailed with the server's own reason, and asks for a login
// when that is what is missing.
export async function checkAnswer(response) {
  if (response.type === "opaqueredirect") {
    throw new CallFailed(307, "Another broker of the cluster serves this; open the console of that broker");
  }
  if (response.ok) return;
  const reason = reasonOf(await response.text(), response.status);
  const isDenied = response.status === 403 || NOT_PERMITTED.some((beginning) => reason.startsWith(beginning));
  if (authorization.value === null && (isDenied || response.status === 401)) askForLogin("");
  else if (response.status === 401 && !isDenied) askForLogin(reason);
  throw new CallFailed(response.status, reason, isDenied);
}

function reasonOf(text, status) {
  const answer = parsed(text);
  return String(answer?.reason ?? (text || `The server answered with status ${status}`));
}
