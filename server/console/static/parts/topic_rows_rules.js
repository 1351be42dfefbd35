// Makes the rows of a namespace's table of topics. Nothing here touches the page.

// `names` are all topics, partitions among them; `partitioned` the partitioned topics; `table` the answer of topicTable,
// or undefined while it is not there. A partitioned topic gets a row of its own with the sums of its partitions. A topic
// that is not loaded has no numbers.
export function topicRows(names, partitioned, table) {
  const numbers = new Map((table?.topics ?? []).map((cells) => [cells[0], rowOf(table.columns, cells)]));
  const rows = new Map();
  for (const topic of partitioned) rows.set(topic, { topic, label: labelOf(topic), isPartitioned: true });
  for (const topic of new Set([...names, ...numbers.keys()])) {
    const row = numbers.get(topic) ?? { topic };
    rows.set(topic, { ...row, label: labelOf(topic) });
    const whole = rows.get(topic.replace(/-partition-\d+$/, ""));
    if (whole?.isPartitioned && whole.topic !== topic) addPartition(whole, row);
  }
  return [...rows.values()];
}

function rowOf(columns, cells) {
  return Object.fromEntries(columns.map((column, index) => [column, cells[index]]));
}

// "persistent://acme/shop/orders" -> "orders"; the names of other domains are kept recognizable.
function labelOf(topic) {
  const name = topic.split("://")[1].split("/").slice(2).join("/");
  return topic.startsWith("non-persistent:") ? `${name} (non-persistent)` : name;
}

const SUMS = [
  "msgRateIn",
  "msgRateOut",
  "msgThroughputIn",
  "msgThroughputOut",
  "storageSize",
  "backlog",
  "producers",
  "consumers",
];
const LARGEST = ["oldestBacklogMessageAgeSeconds", "subscriptions"];

function addPartition(whole, row) {
  for (const key of SUMS) if (typeof row[key] === "number") whole[key] = (whole[key] ?? 0) + row[key];
  for (const key of LARGEST) if (typeof row[key] === "number") whole[key] = Math.max(whole[key] ?? row[key], row[key]);
}
