// Says what an action on a subscription will do, before it is done. Nothing here touches the page.
//
// `line` is the topic laid end to end and `backlog` what is not acknowledged of it (backlog_map_rules.js).

import * as format from "./format_rules.js";

// Returns the places of the first `most` entries that are not acknowledged.
export function firstUnacked(backlog, most) {
  const places = [];
  let range = 0;
  for (let place = backlog.begin; place < backlog.end && places.length < most; place += 1) {
    while (range < backlog.ranges.length && backlog.ranges[range][1] <= place) range += 1;
    const isAcked = range < backlog.ranges.length && backlog.ranges[range][0] <= place;
    if (isAcked) place = backlog.ranges[range][1] - 1;
    else places.push(place);
  }
  return places;
}

// Returns how many entries of [first, last) are not acknowledged.
function unackedBetween(backlog, first, last) {
  const from = Math.max(first, backlog.begin);
  const to = Math.min(last, backlog.end);
  if (to <= from) return 0;
  const acked = backlog.ranges.reduce(
    (sum, [begin, end]) => sum + Math.max(0, Math.min(end, to) - Math.max(begin, from)),
    0,
  );
  return to - from - acked;
}

const entries = (number) => format.plural(number, "entry", "entries");

const GONE = "This subscription never delivers them again; other subscriptions keep them.";

// Where the server does not list all acknowledged ranges, what lies behind the last one counts as not acknowledged.
const upTo = (backlog) => (backlog.isCut ? "up to " : "");

export function previewOfSkip(line, backlog, number) {
  const all = unackedBetween(backlog, backlog.begin, backlog.end);
  const skipped = Math.min(number, all);
  if (skipped === 0) return "There is nothing to skip: everything is acknowledged.";
  const last = placeOfUnacked(backlog, skipped);
  const first = placeOfUnacked(backlog, 1);
  const range = skipped === 1 ? line.at(first) : `from ${line.at(first)} to ${line.at(last)}`;
  return `Acknowledges ${entries(skipped)} of ${upTo(backlog)}${format.count(all)}, ${range}. ${GONE}`;
}

// Returns the place of the `number`-th entry that is not acknowledged, counted from 1.
function placeOfUnacked(backlog, number) {
  let left = number;
  let at = backlog.begin;
  for (const [first, last] of backlog.ranges) {
    const open = Math.max(0, first - at);
    if (open >= left) return at + left - 1;
    left -= open;
    at = Math.max(at, last);
  }
  return at + left - 1;
}

export function previewOfClear(line, backlog) {
  const all = unackedBetween(backlog, backlog.begin, backlog.end);
  if (all === 0) return "There is nothing to clear: everything is acknowledged.";
  return `Acknowledges the whole backlog, ${upTo(backlog)}${entries(all)}, to ${line.at(line.length - 1)}. ${GONE}`;
}

// `place` is where the subscription will go on: the first entry that it delivers next.
export function previewOfReset(line, backlog, place) {
  const target = place >= line.length ? "the end of the topic" : line.at(place);
  const consumers = "Its consumers are disconnected for a moment.";
  if (place < backlog.begin) {
    const again = backlog.begin - place + backlog.ranges.reduce((sum, [first, last]) => sum + last - first, 0);
    return `Goes back to ${target}: ${entries(again)} that are acknowledged will be delivered again. ${consumers}`;
  }
  const skipped = unackedBetween(backlog, backlog.begin, place);
  const again = backlog.ranges.reduce((sum, [first, last]) => sum + Math.max(0, last - Math.max(first, place)), 0);
  const repeated = again > 0 ? ` ${entries(again)} behind it that are acknowledged will be delivered again.` : "";
  return `Goes on at ${target}: ${upTo(backlog)}${entries(skipped)} that are not acknowledged will be skipped.${repeated} ${consumers}`;
}

// `place` is that of the first entry that is young enough to stay. The server leaves out delayed messages that are not
// due, and does not tell beforehand which these are.
export function previewOfExpiry(line, backlog, place) {
  const expired = unackedBetween(backlog, backlog.begin, place);
  if (expired === 0) return "Nothing is that old: no entry would be acknowledged.";
  const all = format.count(unackedBetween(backlog, backlog.begin, backlog.end));
  const target = place >= line.length ? "the end of the topic" : line.at(place);
  const range = `those before ${target}, except delayed ones that are not due`;
  return `Acknowledges ${upTo(backlog)}${entries(expired)} of ${all}, ${range}. ${GONE}`;
}
