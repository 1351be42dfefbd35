// What one can do to a subscription: peek, skip, clear, reset, expire, each with a preview of what it will do.

import { TopicLine, backlogOf, parsePosition } from "../parts/backlog_map_rules.js";
import { ActionButton, Dialog, Field } from "../parts/dialogs.js";
import * as format from "../parts/format_rules.js";
import { html, useEffect, useMemo, useState } from "../parts/library.js";
import { Fault, HowTo, topicWord } from "../parts/panels.js";
import {
  firstUnacked,
  previewOfClear,
  previewOfExpiry,
  previewOfReset,
  previewOfSkip,
} from "../parts/preview_rules.js";
import { call, topicPath, withQuery } from "../parts/rest_calls.js";
import { MessageList } from "./message_view.js";

const ACTIONS = [
  ["peek", "Peek"],
  ["skip", "Skip"],
  ["clear", "Clear"],
  ["reset", "Reset"],
  ["expire", "Expire"],
];
const PEEKED_MAX = 10;

export function SubscriptionActions({ topic, name, internal, wish, setWish, onDone }) {
  if (!internal?.cursors?.[name]) return null;
  return html`${ACTIONS.map(([key, title]) => html`<${ActionButton} key=${key} onAct=${() => setWish(key)}>${title}…</${ActionButton}>`)}
  ${wish === "peek" && html`<${Peek} topic=${topic} name=${name} internal=${internal} onClose=${() => setWish(null)} />`}
  ${wish !== null && wish !== "peek" && html`<${Change} key=${wish} kind=${wish} topic=${topic} name=${name}
    internal=${internal} onClose=${() => setWish(null)} onDone=${onDone} />`}`;
}

// Shows the first messages that are not acknowledged, and changes nothing.
function Peek({ topic, name, internal, onClose }) {
  const [found, setFound] = useState(null);
  const [error, setError] = useState(null);
  const path = topicPath(topic, "messages");
  useEffect(() => {
    const line = new TopicLine(internal);
    const places = firstUnacked(backlogOf(line, internal.cursors[name]), PEEKED_MAX);
    const asked = places.map((place) => call(withQuery(path, { from: line.at(place), count: 1 })));
    Promise.all(asked).then((answers) => setFound(answers.flatMap((each) => each.messages)), setError);
  }, []);
  return html`<${Dialog} title=${`The first messages that ${name} has not acknowledged`} name="peek" onClose=${onClose}>
    <${Fault} error=${error} />
    ${found === null ? !error && html`<p class="waiting">Reading…</p>` : html`<${MessageList} topic=${topic}
      messages=${found} empty="Everything is acknowledged." />`}
    <${HowTo} calls=${[`GET ${topicPath(topic, "subscription", name, "position", "1")}`, `GET ${path}`]}
      commands=${[`magnetar admin topics peek-messages ${topicWord(topic)} -s ${format.shellWord(name)} -n ${PEEKED_MAX}`]} />
  </${Dialog}>`;
}

// How each change is described: its fields, where it leads, and the call and the command that do it.
function Change({ kind, topic, name, internal, onClose, onDone }) {
  const [text, setText] = useState(kind === "skip" ? "1" : kind === "expire" ? "3600" : "");
  const [isBusy, setIsBusy] = useState(false);
  const [error, setError] = useState(null);
  const [preview, setPreview] = useState(null);
  const line = useMemo(() => new TopicLine(internal), [internal]);
  const backlog = useMemo(() => backlogOf(line, internal.cursors[name]), [line]);
  const plan = useMemo(() => planOf(kind, text, topic, name), [kind, text]);
  useEffect(() => {
    let isLast = true;
    setPreview(null);
    setError(null);
    if (plan === null) return undefined;
    previewOf(kind, plan, topic, line, backlog).then(
      (sentence) => isLast && setPreview(sentence),
      (fault) => isLast && setError(fault),
    );
    return () => {
      isLast = false;
    };
  }, [plan, line, backlog]);
  const act = async (event) => {
    event.preventDefault();
    setIsBusy(true);
    try {
      await call(plan.path, { method: "POST", body: plan.body });
      onDone();
      onClose();
    } catch (fault) {
      setError(fault);
      setIsBusy(false);
    }
  };
  const told = preview ?? (plan === null ? "Fill in the field above to see what will happen." : !error && "Looking…");
  const title = ACTIONS.find(([key]) => key === kind)[1];
  return html`<${Dialog} title=${`${title}: ${name}`} name=${kind} onClose=${onClose}>
    <form onSubmit=${act}>
      <${Input} kind=${kind} text=${text} setText=${setText} />
      <p class="note" role="status" data-preview=${preview === null ? "none" : kind}>${told}</p>
      <${Fault} error=${error} />
      <${ActionButton} type="submit" tone="danger" isBusy=${isBusy} disabled=${plan === null || preview === null}>${title}</${ActionButton}>
    </form>
    ${plan !== null && html`<${HowTo} calls=${[`POST ${plan.path}`]} commands=${[plan.command]} />`}
  </${Dialog}>`;
}

function Input({ kind, text, setText }) {
  const typed = (event) => setText(event.target.value);
  if (kind === "skip")
    return html`<${Field} label="How many entries"><input name="value" type="number" min="1" value=${text} onInput=${typed} /></${Field}>`;
  if (kind === "expire") {
    return html`<${Field} label="Older than, in seconds" hint="By the publish time of messages.">
      <input name="value" type="number" min="0" value=${text} onInput=${typed} /></${Field}>`;
  }
  if (kind === "reset") {
    return html`<${Field} label="To" hint="earliest, latest, a message id (12:34), or a time in UTC (2026-11-24 12:00:00).">
      <input name="value" autocomplete="off" value=${text} onInput=${typed} />
    </${Field}>`;
  }
  return null;
}

// Returns {path, body, command, target} of a change, or null while the text says nothing. `target` is what a preview
// has to find: {time} or {position}.
function planOf(kind, text, topic, name) {
  const path = (...more) => topicPath(topic, "subscription", name, ...more);
  const words = `${topicWord(topic)} -s ${format.shellWord(name)}`;
  const number = Number(text);
  const isCount = text.trim() !== "" && Number.isInteger(number) && number >= 0;
  if (kind === "clear") return { path: path("skip_all"), command: `magnetar admin topics clear-backlog ${words}` };
  if (kind === "skip")
    return isCount && number > 0
      ? { path: path("skip", text.trim()), number, command: `magnetar admin topics skip ${words} -n ${number}` }
      : null;
  if (kind === "expire") {
    return isCount
      ? {
          path: path("expireMessages", text.trim()),
          target: { time: Date.now() - number * 1000 },
          command: `magnetar admin topics expire-messages ${words} -t ${number}`,
        }
      : null;
  }
  const position = positionOf(text);
  if (position !== null) {
    const id = position.word ?? `${position.ledger}:${position.entry}`;
    return {
      path: path("resetcursor"),
      body: position.word ?? { ledgerId: position.ledger, entryId: position.entry },
      target: { position },
      command: `magnetar admin topics reset-cursor ${words} -m ${id}`,
    };
  }
  const time = Date.parse(`${text.trim().replace(" ", "T").replace(/Z$/, "")}Z`);
  if (Number.isNaN(time)) return null;
  return {
    path: path("resetcursor", String(time)),
    target: { time },
    command: `magnetar admin topics reset-cursor ${words} -t ${Math.max(0, Math.round((Date.now() - time) / 1000))}s`,
  };
}

function positionOf(text) {
  const word = text.trim().toLowerCase();
  if (word === "earliest" || word === "latest") return { word };
  const id = format.messageId(text);
  return id === null ? null : { ledger: id.ledger, entry: id.entry };
}

async function previewOf(kind, plan, topic, line, backlog) {
  if (kind === "skip") return previewOfSkip(line, backlog, plan.number);
  if (kind === "clear") return previewOfClear(line, backlog);
  const place = await placeOf(plan.target, topic, line);
  return kind === "expire" ? previewOfExpiry(line, backlog, place) : previewOfReset(line, backlog, place);
}

// The server finds the entry of a time; positions are found here.
async function placeOf({ time, position }, topic, line) {
  if (position?.word === "earliest") return 0;
  if (position?.word === "latest") return line.length;
  if (position !== undefined) return line.behind({ ledger: position.ledger, entry: position.entry - 1 });
  const found = await call(topicPath(topic, "messageid", String(time)));
  const { ledger, entry } = parsePosition(`${found.ledgerId}:${found.entryId}`);
  return line.behind({ ledger, entry: entry - 1 });
}
