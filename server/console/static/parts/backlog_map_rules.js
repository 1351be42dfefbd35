// Makes a map of a subscription's backlog from the positions that internalStats tells. Nothing here touches the page.

// What became of an entry, in the order in which mixed cells show it: the most telling state first.
export const STATES = ["hole", "read", "unread", "acked"];

// "[(2:3..2:6],(2:8..2:9]]" -> [{from: {ledger, entry}, to: {ledger, entry}}]; a range leaves its first position out
// and has its last one, as Java's Range.openClosed prints it.
function parseRanges(text) {
  return [...text.matchAll(/\((-?\d+):(-?\d+)\.\.(-?\d+):(-?\d+)\]/g)].map((found) => {
    const [fromLedger, fromEntry, toLedger, toEntry] = found.slice(1).map(Number);
    return { from: { ledger: fromLedger, entry: fromEntry }, to: { ledger: toLedger, entry: toEntry } };
  });
}

export function parsePosition(text) {
  const [ledger, entry] = String(text).split(":").map(Number);
  return { ledger, entry };
}

// The ledgers of a topic laid end to end, so that every entry has one number: its place in the topic.
export class TopicLine {
  #ledgers = [];

  // `stats` is the answer of internalStats: the entries of the open ledger stand apart from the list.
  constructor(stats) {
    let first = 0;
    stats.ledgers.forEach((each, index) => {
      const isOpen = index === stats.ledgers.length - 1 && each.entries === 0;
      const entries = isOpen ? stats.currentLedgerEntries : each.entries;
      this.#ledgers.push({ id: each.ledgerId, first, entries });
      first += entries;
    });
    this.length = first;
  }

  // Returns how many entries of the topic come before the position or are it: the place behind the entry.
  behind({ ledger, entry }) {
    let place = 0;
    for (const each of this.#ledgers) {
      if (ledger < each.id) return place;
      if (ledger === each.id) return each.first + Math.min(Math.max(entry + 1, 0), each.entries);
      place = each.first + each.entries;
    }
    return place;
  }

  // Returns the position of the entry at a place, as text.
  at(place) {
    const ledger = this.#ledgers.findLast((each) => each.first <= place && each.entries > 0);
    return ledger === undefined ? "" : `${ledger.id}:${place - ledger.first}`;
  }
}

// Returns {begin, end, ranges, readPlace, holes, isCut}: the part of the topic behind the mark-delete position, the
// ranges of it that are acknowledged ([begin, end) in places), up to where entries were read, and the holes between them.
// `isCut` says that there are more ranges than the server lists: behind the last one of the list, ackMap has to be asked.
export function backlogOf(line, cursor) {
  const begin = line.behind(parsePosition(cursor.markDeletePosition));
  const ranges = parseRanges(cursor.individuallyDeletedMessages ?? "")
    .map(({ from, to }) => [Math.max(line.behind(from), begin), line.behind(to)])
    .filter(([first, last]) => last > first);
  const read = parsePosition(cursor.readPosition);
  const readPlace = line.behind({ ledger: read.ledger, entry: read.entry - 1 });
  const holes = [];
  let at = begin;
  for (const [first, last] of ranges) {
    if (first > at) holes.push([at, first]);
    at = Math.max(at, last);
  }
  const isCut = (cursor.totalNonContiguousDeletedMessagesRange ?? 0) > ranges.length;
  return { begin, end: line.length, ranges, readPlace, holes, isCut };
}

// Cuts the part of the backlog that the subscription has read into at most `cellsMax` cells of equally many entries.
// Returns {cells, entriesPerCell, unread}: a cell is {first, last, counts: {hole, read, unread, acked}} over the places
// [first, last), and `unread` is how many entries were not read, which would only fill the page.
export function cellsOf(backlog, cellsMax) {
  const { begin, ranges, readPlace } = backlog;
  const lastAcked = ranges.length > 0 ? ranges[ranges.length - 1][1] : begin;
  const end = Math.min(Math.max(readPlace, lastAcked, begin), backlog.end);
  const entriesPerCell = Math.max(1, Math.ceil((end - begin) / cellsMax));
  const cells = [];
  let range = 0;
  for (let first = begin; first < end; first += entriesPerCell) {
    const last = Math.min(first + entriesPerCell, end);
    while (range < ranges.length && ranges[range][1] <= first) range += 1;
    const counts = { hole: 0, read: 0, unread: 0, acked: 0 };
    let at = first;
    for (let index = range; index < ranges.length && ranges[index][0] < last; index += 1) {
      addOpen(counts, at, Math.max(at, ranges[index][0]), lastAcked, readPlace);
      const ackedTo = Math.min(ranges[index][1], last);
      counts.acked += ackedTo - Math.max(at, ranges[index][0]);
      at = ackedTo;
    }
    addOpen(counts, at, last, lastAcked, readPlace);
    cells.push({ first, last, counts });
  }
  return { cells, entriesPerCell, unread: backlog.end - end };
}

// The same cells, from the answer of the call ackMap, which counts what is acknowledged of each cell: where there are more
// ranges than the server lists, the places of the ranges are not known.
export function cellsOfMap(line, map) {
  const begin = line.behind(parsePosition(map.markDeletePosition));
  const read = parsePosition(map.readPosition);
  const readPlace = line.behind({ ledger: read.ledger, entry: read.entry - 1 });
  const lastAcked = begin + map.toLastAcked;
  const end = begin + map.entries;
  const cells = map.acked.map((acked, index) => {
    const first = begin + index * map.entriesPerCell;
    const last = Math.min(first + map.entriesPerCell, end);
    const counts = { hole: 0, read: 0, unread: 0, acked };
    addOpen(counts, first, last, lastAcked, readPlace);
    // What is acknowledged lies among what counts as a hole so far.
    counts.hole -= acked;
    return { first, last, counts };
  });
  return { cells, entriesPerCell: map.entriesPerCell, unread: Math.max(0, line.length - end) };
}

// Counts the entries of [first, last), which are not acknowledged: those before the last acknowledged one are holes,
// the others were read (given to a consumer, delayed, or waiting to be) or not.
function addOpen(counts, first, last, lastAcked, readPlace) {
  const hole = Math.max(0, Math.min(last, lastAcked) - first);
  const from = first + hole;
  const read = Math.max(0, Math.min(last, readPlace) - from);
  counts.hole += hole;
  counts.read += read;
  counts.unread += Math.max(0, last - from - read);
}

// The state that a cell is drawn in.
export function stateOf(cell) {
  return STATES.find((state) => cell.counts[state] > 0) ?? "acked";
}
