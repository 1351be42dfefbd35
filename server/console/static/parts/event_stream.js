// Server-Sent Events over fetch, which, unlike EventSource, can send the Authorization header. A stream that ends or
// breaks is opened again, more slowly each time.

import { useEffect, useState } from "./library.js";
import { authorization } from "./login_session.js";
import { checkAnswer, request } from "./rest_calls.js";
import { useStore } from "./store.js";

const RETRY_MS_MIN = 1_000;
const RETRY_MS_MAX = 15_000;
const EVENT_CHARACTERS_MAX = 4 << 20;

// Takes the text of a stream piece by piece and returns the events that are complete: {event, data}. Source: the HTML
// standard, "Interpreting an event stream".
export class EventParser {
  #rest = "";

  push(text) {
    this.#rest += text;
    if (this.#rest.length > EVENT_CHARACTERS_MAX) throw new RangeError("An event of the server is too large");
    const events = [];
    for (;;) {
      const end = /\r?\n\r?\n/.exec(this.#rest);
      if (end === null) return events;
      const found = eventOf(this.#rest.slice(0, end.index));
      this.#rest = this.#rest.slice(end.index + end[0].length);
      if (found !== null) events.push(found);
    }
  }
}

function eventOf(block) {
  let event = "message";
  const data = [];
  for (const line of block.split(/\r?\n/)) {
    const [, field, value] = /^([^:]*):? ?(.*)$/s.exec(line);
    if (field === "event") event = value;
    if (field === "data") data.push(value);
  }
  return data.length === 0 ? null : { event, data: data.join("\n") };
}

// Opens the stream at `path` and calls `receive(event, value)` with the JSON of each event, and `fail(error)` when the
// stream cannot be had. Returns a function that ends it.
function openStream(path, receive, fail) {
  const stop = new AbortController();
  let pause = RETRY_MS_MIN;
  const run = async () => {
    while (!stop.signal.aborted) {
      try {
        await readOnce(path, stop.signal, (event, value) => {
          pause = RETRY_MS_MIN;
          receive(event, value);
        });
      } catch (error) {
        if (stop.signal.aborted) return;
        fail(error);
        if (error.isDenied || error.status === 404) return;
      }
      await slept(pause, stop.signal);
      pause = Math.min(pause * 2, RETRY_MS_MAX);
    }
  };
  run();
  return () => stop.abort();
}

async function readOnce(path, signal, receive) {
  const response = await request(path, { signal, headers: { Accept: "text/event-stream" } });
  await checkAnswer(response);
  const parser = new EventParser();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    for (const { event, data } of parser.push(value)) receive(event, JSON.parse(data));
  }
}

// Nothing stays behind at the signal, which a page has for all the streams of its life.
function slept(ms, signal) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
  });
}

// Calls `receive(event, value)` for the events of a stream for as long as the component is there and the tab is
// visible: a hidden tab costs the server nothing. Returns the last fault, or null. A path of null opens nothing.
export function useStream(path, receive) {
  const [error, setError] = useState(null);
  const login = useStore(authorization);
  useEffect(() => {
    if (path === null) return undefined;
    let close = null;
    const follow = () => {
      if (document.hidden && close !== null) {
        close();
        close = null;
      } else if (!document.hidden && close === null) {
        close = openStream(path, (event, value) => (setError(null), receive(event, value)), setError);
      }
    };
    follow();
    document.addEventListener("visibilitychange", follow);
    return () => {
      document.removeEventListener("visibilitychange", follow);
      close?.();
    };
  }, [path, login]);
  return error;
}
