// A value that several parts of the page share, and a hook that draws its user again whenever the value changes.

import { useEffect, useState } from "./library.js";

export class Store {
  #value;
  #listeners = new Set();

  constructor(value) {
    this.#value = value;
  }

  get value() {
    return this.#value;
  }

  // Setting the value that is there already tells nobody.
  set value(value) {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const listener of [...this.#listeners]) listener(value);
  }

  // Returns a function that ends the subscription.
  subscribe(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

export function useStore(store) {
  const [value, setValue] = useState(store.value);
  useEffect(() => {
    setValue(() => store.value);
    return store.subscribe((next) => setValue(() => next));
  }, [store]);
  return value;
}
