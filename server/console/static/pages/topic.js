// A topic: its tabs, and the first of them with rates, producers and subscriptions. A partitioned topic has its
// partitions there instead; each of them is a topic of its own.

import * as format from "../parts/format_rules.js";
import { html } from "../parts/library.js";
import { Fault, Tabs, Waiting } from "../parts/panels.js";
import { useCall } from "../parts/polling.js";
import { topicPath } from "../parts/rest_calls.js";
import { fullName, topicLink } from "../parts/routes.js";
import { Ledgers } from "./ledgers.js";
import { MessageStory } from "./message_story.js";
import { Messages } from "./messages.js";
import { PartitionedTopic } from "./partitioned_topic.js";
import { Policies } from "./policies.js";
import { Produce } from "./produce.js";
import { Schemas } from "./schemas.js";
import { TopicOverview } from "./topic_overview.js";

const TABS = [
  ["Overview", "", TopicOverview],
  ["Messages", "messages", Messages],
  ["Ledgers", "ledgers", Ledgers],
  ["Schemas", "schemas", Schemas],
  ["Policies", "policies", Policies],
  ["Produce", "produce", Produce],
];

// The tabs of a partitioned topic, and of a topic that keeps nothing on disk.
const OF_PARTITIONED = ["", "schemas", "policies", "produce"];
const OF_NON_PERSISTENT = ["", "schemas", "policies", "produce"];

export function Topic({ topic, tab, rest, query }) {
  const partitions = useCall(topicPath(topic, "partitions"));
  if (partitions.value === undefined) {
    return partitions.error ? html`<${Fault} error=${partitions.error} topic=${topic} />` : html`<${Waiting} />`;
  }
  const isPartitioned = partitions.value.partitions > 0;
  const usable = isPartitioned
    ? OF_PARTITIONED
    : topic.domain === "persistent"
      ? TABS.map(([, key]) => key)
      : OF_NON_PERSISTENT;
  const tabs = TABS.filter(([, key]) => usable.includes(key));
  const [, , Content] = tabs.find(([, key]) => key === tab) ?? [];
  return html`<p class="hint">
      <code>${fullName(topic)}</code>${isPartitioned && ` · ${format.plural(partitions.value.partitions, "partition")}`}
    </p>
    <${Tabs}
      label="Parts of the topic"
      tabs=${tabs.map(([title, key]) => [title, topicLink(topic, ...(key ? [key] : [])), key === tab])}
    />
    ${contentOf()}`;

  function contentOf() {
    if (Content === undefined) return html`<p class="note">There is no such part of this topic.</p>`;
    if (isPartitioned && tab === "") return html`<${PartitionedTopic} topic=${topic} />`;
    if (tab === "messages" && rest.length > 0)
      return html`<${MessageStory} key=${rest[0]} topic=${topic} id=${rest[0]} />`;
    return html`<${Content} key=${tab} topic=${topic} query=${query} isPartitioned=${isPartitioned} />`;
  }
}
