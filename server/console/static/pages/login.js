// Asks who the user is: a token, or a name and a password. Shown when the server asks, or when the user wants to.

import { ActionButton, Dialog, Field } from "../parts/dialogs.js";
import { html, useState } from "../parts/library.js";
import { authorization, basicHeader, bearerHeader, declineLogin, logIn, loginReason } from "../parts/login_session.js";
import { useStore } from "../parts/store.js";

export function Login() {
  const reason = useStore(loginReason);
  if (reason === null) return null;
  return html`<${LoginDialog} reason=${reason} />`;
}

function LoginDialog({ reason }) {
  const [kind, setKind] = useState(authorization.value?.startsWith("Basic") ? "basic" : "token");
  const [token, setToken] = useState("");
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  const send = (event) => {
    event.preventDefault();
    logIn(kind === "token" ? bearerHeader(token) : basicHeader(user, password));
  };
  const typed = (set) => (event) => set(event.target.value);
  return html`<${Dialog} title="Log in" name="login" onClose=${declineLogin}>
    ${reason && html`<p class="fault" role="alert">${reason}</p>`}
    <form onSubmit=${send}>
      <fieldset class="choice">
        <legend>With</legend>
        ${[
          ["token", "a token"],
          ["basic", "name and password"],
        ].map(
          ([value, words]) =>
            html`<label key=${value}>
              <input
                type="radio"
                name="kind"
                value=${value}
                checked=${kind === value}
                onChange=${() => setKind(value)}
              />
              ${words}
            </label>`,
        )}
      </fieldset>
      ${
        kind === "token"
          ? html`<${Field} key="token" label="Token" hint="What magnetar tokens create printed, or your issuer gave you.">
            <textarea name="token" rows="4" autocomplete="off" spellcheck=${false} value=${token} onInput=${typed(setToken)}></textarea>
          </${Field}>`
          : html`<${Field} key="user" label="Name"><input name="user" autocomplete="username" value=${user}
            onInput=${typed(setUser)} /></${Field}>
            <${Field} key="password" label="Password">
              <input name="password" type="password" autocomplete="current-password" value=${password} onInput=${typed(setPassword)} />
            </${Field}>`
      }
      <p class="hint">This tab keeps it until it is closed, and sends it to this server only.</p>
      <${ActionButton} type="submit" tone="primary"
        disabled=${kind === "token" ? token.trim() === "" : user === ""}>Log in</${ActionButton}>
    </form>
  </${Dialog}>`;
}
