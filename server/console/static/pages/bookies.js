// The bookies that brokers may write to, with their racks, and how to see what auto-recovery does.

import { html } from "../parts/library.js";
import { HowTo, Loaded, Panel } from "../parts/panels.js";
import { useCall } from "../parts/polling.js";
import { adminPath } from "../parts/rest_calls.js";
import { Table } from "../parts/tables.js";

const LOOK_MS = 10_000;

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
];

export function Bookies() {
  const all = adminPath("bookies", "all");
  const racksPath = adminPath("bookies", "racks-info");
  const bookies = useCall(all, { every: LOOK_MS });
  const racks = useCall(racksPath, { every: LOOK_MS });
  return html`<div class="panels">
    <${Panel} title="Bookies" wide=${true} name="bookies">
      <${Loaded} from=${bookies}>${(value) =>
        html`<${Table}
          name="bookies"
          label="Bookies"
          columns=${COLUMNS}
          rows=${rowsOf(value.bookies, racks.value)}
          rowKey=${(row) => row.bookie}
          firstSort=${["bookie", "ascending"]}
          empty="No bookie is registered."
        />`}</${Loaded}>
      <${HowTo} calls=${[`GET ${all}`, `GET ${racksPath}`]}
        commands=${["magnetar admin bookies list-bookies", "magnetar admin bookies racks-placement"]} />
    </${Panel}>
    <${Panel} title="Auto-recovery" name="recovery">
      <p>In a cluster, the auditor marks ledgers that lack copies, and workers make the copies again. The tool that talks to
        the bookies' metadata tells which ledgers are marked:</p>
      <${HowTo} calls=${[`GET ${all}`]}
        commands=${["magnetar bk listunderreplicated", "magnetar bk autorecovery -status", "magnetar bk listbookies -rw"]} />
    </${Panel}>
  </div>`;
}

function rowsOf(bookies, racks) {
  const places = new Map(
    Object.entries(racks ?? {}).flatMap(([group, members]) =>
      Object.entries(members).map(([bookie, info]) => [bookie, { group, rack: info.rack ?? "" }]),
    ),
  );
  return bookies.map(({ bookieId }) => ({ bookie: bookieId, rack: "", group: "", ...places.get(bookieId) }));
}
