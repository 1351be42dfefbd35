// The bookies that are registered, with their racks and the room on their disks, and what auto-recovery has to do.

import * as format from "../parts/format_rules.js";
import { html } from "../parts/library.js";
import { Badge, Facts, HowTo, Loaded, Panel } from "../parts/panels.js";
import { useCall } from "../parts/polling.js";
import { adminPath } from "../parts/rest_calls.js";
import { Table } from "../parts/tables.js";

const LOOK_MS = 10_000;
const RECOVERY_LOOK_MS = 30_000;

const COLUMNS = [
  {
    key: "bookie",
    title: "Bookie",
    isWide: true,
    value: (row) => row.bookie,
    show: (row) => html`<span class="mono">${row.bookie}</span>`,
  },
  { key: "rack", title: "Rack", value: (row) => row.rack },
  { key: "group", title: "Group", value: (row) => row.group },
  {
    key: "free",
    title: "Free",
    isNumber: true,
    value: (row) => row.disk?.freeSpace ?? null,
    show: (row) =>
      row.disk?.error
        ? html`<span title=${row.disk.error}><${Badge} tone="warn">no answer</${Badge}></span>`
        : format.bytes(row.disk?.freeSpace),
  },
  {
    key: "total",
    title: "Disk",
    isNumber: true,
    value: (row) => row.disk?.totalSpace ?? null,
    show: (row) => format.bytes(row.disk?.totalSpace),
  },
];

export function Bookies() {
  const all = adminPath("bookies", "all");
  const racksPath = adminPath("bookies", "racks-info");
  const disksPath = adminPath("bookies", "disks");
  const bookies = useCall(all, { every: LOOK_MS });
  const racks = useCall(racksPath, { every: LOOK_MS });
  const disks = useCall(disksPath, { every: LOOK_MS });
  return html`<div class="panels">
    <${Panel} title="Bookies" wide=${true} name="bookies">
      <${Loaded} from=${bookies}>${(value) =>
        html`<${Table}
          name="bookies"
          label="Bookies"
          columns=${COLUMNS}
          rows=${rowsOf(value.bookies, racks.value, disks.value)}
          rowKey=${(row) => row.bookie}
          firstSort=${["bookie", "ascending"]}
          empty="No bookie is registered."
        />`}</${Loaded}>
      <${HowTo} calls=${[`GET ${all}`, `GET ${racksPath}`, `GET ${disksPath}`]}
        commands=${["magnetar admin bookies list-bookies", "magnetar admin bookies racks-placement", "magnetar bk bookieinfo"]} />
    </${Panel}>
    <${AutoRecovery} />
  </div>`;
}

function rowsOf(bookies, racks, disks) {
  const places = new Map(
    Object.entries(racks ?? {}).flatMap(([group, members]) =>
      Object.entries(members).map(([bookie, info]) => [bookie, { group, rack: info.rack ?? "" }]),
    ),
  );
  return bookies.map(({ bookieId }) => ({
    bookie: bookieId,
    rack: "",
    group: "",
    ...places.get(bookieId),
    disk: disks?.[bookieId],
  }));
}

function AutoRecovery() {
  const path = adminPath("bookies", "autorecovery");
  const recovery = useCall(path, { every: RECOVERY_LOOK_MS });
  // A standalone server answers with a sentence that says why there is nothing to recover.
  const isStandalone = recovery.error?.status === 404;
  return html`<${Panel} title="Auto-recovery" wide=${true} name="recovery">
    ${
      isStandalone
        ? html`<p>${recovery.error.message}.</p>`
        : html`<${Loaded} from=${recovery}>${(value) => html`<${RecoveryState} state=${value} />`}</${Loaded}>`
    }
    <${HowTo} calls=${[`GET ${path}`]}
      commands=${["magnetar bk listunderreplicated", "magnetar bk autorecovery -status", "magnetar bk whoisauditor"]} />
  </${Panel}>`;
}

function RecoveryState({ state }) {
  const more = state.isCut ? "more than " : "";
  return html`<p>
      ${
        state.enabled
          ? html`<${Badge} tone="good">on</${Badge}>`
          : html`<${Badge} tone="warn">off</${Badge}> Nobody makes lost copies again until it is switched on.`
      }
    </p>
    <${Facts}
      rows=${[
        ["Auditor", state.auditor ?? "none: lost copies are not noticed"],
        ["Ledgers that lack copies", `${more}${format.count(state.underreplicated)}`],
      ]}
    />
    <${Table}
      name="underreplicated"
      label="Ledgers that lack copies"
      columns=${LEDGER_COLUMNS}
      rows=${state.ledgers}
      rowKey=${(row) => String(row.ledgerId)}
      firstSort=${["ledgerId", "ascending"]}
      empty="Every ledger has all of its copies, as far as the auditor knows."
    />
    ${
      state.ledgers.length < state.underreplicated &&
      html`<p class="note">The first ${format.count(state.ledgers.length)} are listed.</p>`
    }`;
}

const LEDGER_COLUMNS = [
  { key: "ledgerId", title: "Ledger", isNumber: true, value: (row) => row.ledgerId },
  { key: "missing", title: "Copies are missing on", isWide: true, value: (row) => row.missing.join(", ") },
  {
    key: "since",
    title: "Since",
    value: (row) => row.since,
    show: (row) => format.time(row.since),
  },
  { key: "lockedBy", title: "Healed by", value: (row) => row.lockedBy ?? "nobody yet" },
];
