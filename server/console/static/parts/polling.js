// Hooks that keep the answer of a call fresh while a page shows it. Nothing is asked while the tab is hidden, and a
// page that is left cancels what it asked.

import { useCallback, useEffect, useState } from "./library.js";
import { authorization } from "./login_session.js";
import { call, serverReturns } from "./rest_calls.js";
import { useStore } from "./store.js";

export const FRESH_MS = 10_000;
const HIDDEN_LOOK_MS = 1_000;

// Returns {value, error, refresh}: the newest answer of the call (kept while the next one is under way, and while the
// call fails), and the last fault. A path of null asks nothing. With `every` of 0 the call is made once.
export function useCall(path, { every = 0 } = {}) {
  const [state, setState] = useState({ path: null, value: undefined, error: null });
  const [wish, setWish] = useState(0);
  const login = useStore(authorization);
  const returns = useStore(serverReturns);
  const refresh = useCallback(() => setWish((count) => count + 1), []);
  useEffect(() => {
    if (path === null) return undefined;
    return repeated(every, (signal) =>
      call(path, { signal }).then(
        (value) => signal.aborted || setState({ path, value, error: null }),
        (error) =>
          signal.aborted || setState((old) => ({ path, value: old.path === path ? old.value : undefined, error })),
      ),
    );
  }, [path, every, login, returns, wish]);
  const isOfThisPath = state.path === path;
  return { value: isOfThisPath ? state.value : undefined, error: isOfThisPath ? state.error : null, refresh };
}

// Calls `step` now and then again `every` milliseconds after each end of it, while the tab is visible. Returns a
// function that stops and aborts the step that is under way.
export function repeated(every, step) {
  const stop = new AbortController();
  let timer = 0;
  const next = async () => {
    if (document.hidden) {
      timer = setTimeout(next, HIDDEN_LOOK_MS);
      return;
    }
    await step(stop.signal);
    if (every > 0 && !stop.signal.aborted) timer = setTimeout(next, every);
  };
  next();
  return () => {
    stop.abort();
    clearTimeout(timer);
  };
}
