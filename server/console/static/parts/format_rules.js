// How numbers, sizes, times and message ids are written. Nothing here touches the page.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const NOTHING = "–";

export function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

// 1234567 -> "1,234,567"
export function count(value) {
  return isNumber(value) ? Math.round(value).toLocaleString("en-US") : NOTHING;
}

// Rates keep a decimal below 100, so that a slow topic does not look idle: 0.4 -> "0.4", 12345.6 -> "12,346".
export function rate(value) {
  if (!isNumber(value)) return NOTHING;
  if (value === 0 || value >= 100) return count(value);
  return value < 0.05 ? "<0.1" : value.toFixed(1);
}

export function perSecond(value) {
  return isNumber(value) ? `${rate(value)}/s` : NOTHING;
}

// 1536 -> "1.5 KiB"
export function bytes(value) {
  if (!isNumber(value) || value < 0) return NOTHING;
  let unit = 0;
  let shown = value;
  while (shown >= 1024 && unit < UNITS.length - 1) {
    shown /= 1024;
    unit += 1;
  }
  return `${unit === 0 || shown >= 100 ? Math.round(shown).toLocaleString("en-US") : shown.toFixed(1)} ${UNITS[unit]}`;
}

export function byteRate(value) {
  return isNumber(value) ? `${bytes(value)}/s` : NOTHING;
}

// A length of time in the two largest units that matter: 3725 -> "1 h 2 min".
export function duration(seconds) {
  if (!isNumber(seconds) || seconds < 0) return NOTHING;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function milliseconds(value) {
  if (!isNumber(value)) return NOTHING;
  return value >= 100 ? `${Math.round(value)} ms` : `${value.toFixed(value < 10 ? 2 : 1)} ms`;
}

// A time of the wall clock, in UTC, as the log and the commands print it: "2026-11-24 12:26:17.773".
export function time(ms) {
  if (!isNumber(ms) || ms <= 0 || ms > 8.64e15) return NOTHING;
  return new Date(ms).toISOString().replace("T", " ").replace("Z", "");
}

export function age(ms, nowMs) {
  return isNumber(ms) && ms > 0 ? duration(Math.max(0, (nowMs - ms) / 1000)) : NOTHING;
}

export function plural(number, word, words = `${word}s`) {
  return `${count(number)} ${number === 1 ? word : words}`;
}

// Splits "12:34" or "12:34:5" into numbers; returns null for another text.
export function messageId(text) {
  const found = /^(-?\d+):(-?\d+)(?::(\d+))?$/.exec(text.trim());
  if (found === null) return null;
  return { ledger: Number(found[1]), entry: Number(found[2]), batch: found[3] === undefined ? null : Number(found[3]) };
}

// Quotes a word for a POSIX shell, so that a command can be pasted as it is shown.
export function shellWord(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

export const nothing = NOTHING;
