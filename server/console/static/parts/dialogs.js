// A dialog in front of the page, with the focus on its first field. The browser's own <dialog> keeps the focus inside
// and closes it by Escape; at the end the focus goes back to where it was.

import { html, useLayoutEffect, useRef } from "./library.js";

export function Dialog({ title, onClose, children, name }) {
  const element = useRef(null);
  useLayoutEffect(() => {
    const before = document.activeElement;
    element.current.showModal();
    element.current.querySelector("input, textarea, select, .action")?.focus();
    return () => before?.focus();
  }, []);
  return html`<dialog ref=${element} onClose=${onClose} aria-label=${title} data-dialog=${name}>
    <header>
      <h2>${title}</h2>
      <button type="button" class="quiet" aria-label="Close" onClick=${onClose}>✕</button>
    </header>
    ${children}
  </dialog>`;
}

// A field with its label above it.
export function Field({ label, hint, children }) {
  return html`<label class="field"><span>${label}</span>${children}${hint && html`<small>${hint}</small>`}</label>`;
}

// A button that starts something: it cannot be pressed again while that is under way.
export function ActionButton({ onAct, isBusy, tone = "", children, disabled = false, type = "button" }) {
  return html`<button
    type=${type}
    class=${`action ${tone}`}
    disabled=${isBusy || disabled}
    onClick=${onAct}
    aria-busy=${isBusy ? "true" : undefined}
  >
    ${children}
  </button>`;
}
