// Who the user is: the value of the Authorization header. It is kept in the session storage of this tab only, so it is
// gone when the tab is closed, and it never becomes part of an address.

import { Store } from "./store.js";

const KEY = "magnetar.authorization";

// The header's value, or null while nobody has logged in.
export const authorization = new Store(sessionStorage.getItem(KEY));

// Why a login is asked for: null while none is needed, otherwise a sentence, which is empty at the first time.
export const loginReason = new Store(null);

// Whether the user closed the login without logging in. Then no call asks for it again until the user does.
let isDeclined = false;

// Called when the server refuses a call because it does not know the caller, or knows too little.
export function askForLogin(reason) {
  if (!isDeclined) loginReason.value = reason;
}

export function declineLogin() {
  isDeclined = true;
  loginReason.value = null;
}

export function logIn(value) {
  isDeclined = false;
  sessionStorage.setItem(KEY, value);
  loginReason.value = null;
  authorization.value = value;
}

// Forgets who the user is, and offers the login.
export function logOut() {
  isDeclined = false;
  sessionStorage.removeItem(KEY);
  authorization.value = null;
  loginReason.value = "";
}

export function bearerHeader(token) {
  return `Bearer ${token.trim()}`;
}

// Names and passwords may hold any character: they are encoded as UTF-8 first, as RFC 7617 recommends.
export function basicHeader(user, password) {
  const bytes = new TextEncoder().encode(`${user}:${password}`);
  return `Basic ${btoa(String.fromCharCode(...bytes))}`;
}

// Says who is logged in, for the frame of the page: the user's name, or the subject of a token. A token is only read
// here for its name; the server is who checks it.
export function shownIdentity(value) {
  if (!value) return null;
  const [scheme, text] = value.split(" ", 2);
  try {
    if (scheme === "Basic") return decoded(text).split(":", 1)[0];
    const claims = JSON.parse(decoded(text.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")));
    return String(claims.sub ?? "token");
  } catch {
    return "token";
  }
}

function decoded(base64) {
  return new TextDecoder().decode(Uint8Array.from(atob(base64), (character) => character.charCodeAt(0)));
}
