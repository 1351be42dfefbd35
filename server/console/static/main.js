// Starts the console: draws the frame with the page that the address names into the body of the document.

import { html, render } from "./vendor/htm-preact-standalone.module.js";
import { Frame } from "./pages/frame.js";

render(html`<${Frame} />`, document.body);
