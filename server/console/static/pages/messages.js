// The messages of a topic: from any place on, filtered, and live as they come.

import { ActionButton, Field } from "../parts/dialogs.js";
import * as format from "../parts/format_rules.js";
import { html, useCallback, useEffect, useState } from "../parts/library.js";
import { Fault, HowTo, Panel, topicWord } from "../parts/panels.js";
import { repeated } from "../parts/polling.js";
import { call, topicPath, withQuery } from "../parts/rest_calls.js";
import { MessageList } from "./message_view.js";

const COUNTS = [20, 50, 100, 500];
const TAIL_MS = 1_000;
// How many messages stay on the page while it follows a topic: the oldest go.
const TAIL_MESSAGES_MAX = 500;

const FIRST_WISH = { from: "latest", count: 50, key: "", property: "", text: "" };

export function Messages({ topic, query }) {
  const [wish, setWish] = useState({ ...FIRST_WISH, from: query.get("from") || FIRST_WISH.from });
  const [shown, setShown] = useState({ messages: [], next: null, resume: null, scanned: 0, isAsked: false });
  const [error, setError] = useState(null);
  const [isBusy, setIsBusy] = useState(false);
  const [isTail, setIsTail] = useState(false);
  const path = topicPath(topic, "messages");

  const ask = useCallback(
    async (from, isMore, signal) => {
      const { key, property, text } = wish;
      const answer = await call(withQuery(path, { from, count: wish.count, key, property, text }), { signal });
      setError(null);
      setShown((old) => joined(isMore ? old : null, answer));
      return answer;
    },
    [path, wish],
  );
  const load = async (from, isMore) => {
    setIsBusy(true);
    await ask(from, isMore).catch(setError);
    setIsBusy(false);
  };
  useEffect(() => void load(wish.from, false), []);
  // The tail goes on where the last answer ended, again and again.
  useEffect(() => {
    if (!isTail) return undefined;
    let from = shown.resume ?? "latest";
    return repeated(TAIL_MS, (signal) =>
      ask(from, true, signal).then(
        (answer) => (from = answer.resume),
        (fault) => signal.aborted || setError(fault),
      ),
    );
  }, [isTail, ask]);

  const change = (name) => (event) =>
    setWish({ ...wish, [name]: name === "count" ? Number(event.target.value) : event.target.value });
  const find = (event) => {
    event.preventDefault();
    setIsTail(false);
    load(wish.from, false);
  };
  const asked = withQuery(path, wish);
  return html`<div class="panels"><${Panel} title="Messages" wide=${true} aside=${html`<span role="status"
    data-scanned=${shown.scanned}>${told(shown, isTail)}</span>`}>
    <form class="row" onSubmit=${find} role="search">
      <${Field} label="From"><input name="from" list="places" value=${wish.from} onInput=${change("from")}
        title="earliest, latest, a message id, or a time" /></${Field}>
      <datalist id="places"><option value="earliest" /><option value="latest" /></datalist>
      <${Field} label="How many"><select name="count" value=${wish.count}
        onChange=${change("count")}>${COUNTS.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select></${Field}>
      <${Field} label="Key"><input name="key" value=${wish.key} onInput=${change("key")} /></${Field}>
      <${Field} label="Property"><input name="property" placeholder="name or name=value" value=${wish.property}
        onInput=${change("property")} /></${Field}>
      <${Field} label="Text"><input name="text" value=${wish.text} onInput=${change("text")} /></${Field}>
      <${ActionButton} type="submit" tone="primary" isBusy=${isBusy}>Show</${ActionButton}>
      <label><input type="checkbox" name="tail" checked=${isTail} onChange=${(event) => setIsTail(event.target.checked)} /> follow</label>
    </form>
    <p class="hint">From: earliest, latest (the last ones), a message id such as 12:34, or a time in UTC such as 2026-11-24T12:00:00Z.</p>
    <${Fault} error=${error} topic=${topic} />
    ${shown.isAsked && html`<${MessageList} topic=${topic}
      messages=${isTail ? [...shown.messages].reverse() : shown.messages} empty="No message there is as you ask." />`}
    ${shown.next !== null && !isTail && html`<${ActionButton} isBusy=${isBusy}
      onAct=${() => load(shown.next, true)}>Go on from ${shown.next}</${ActionButton}>`}
    <${HowTo} calls=${[`GET ${asked}`]}
      commands=${[readCommand(topic, wish)]} />
  </${Panel}></div>`;
}

// `magnetar read` has no place for the last messages; that of the call's default is followed instead.
function readCommand(topic, { from, count }) {
  const place = from === "latest" ? "-f" : `--from ${format.shellWord(from)} -n ${count}`;
  return `magnetar read ${topicWord(topic)} ${place}`;
}

// Adds an answer to what is shown; `old` is null for a new search. The same message never stands there twice.
function joined(old, answer) {
  const before = old?.messages ?? [];
  const known = new Set(before.map((each) => each.id));
  const messages = [...before, ...answer.messages.filter((each) => !known.has(each.id))].slice(-TAIL_MESSAGES_MAX);
  return {
    messages,
    next: answer.next,
    resume: answer.resume,
    scanned: (old?.scanned ?? 0) + answer.scannedEntries,
    isAsked: true,
  };
}

function told(shown, isTail) {
  if (!shown.isAsked) return "";
  const looked = `${format.plural(shown.messages.length, "message")}, ${format.plural(shown.scanned, "entry", "entries")} looked at`;
  return isTail ? `${looked}; following` : looked;
}
