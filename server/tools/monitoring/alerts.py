"""Our alert rules for Prometheus, and the file that holds them."""

import json
from collections.abc import Sequence
from typing import NamedTuple


class Alert(NamedTuple):
    """One rule. Its thresholds are a beginning: each installation has its own."""

    name: str
    expr: str
    lasts: str
    """How long the condition must hold."""
    severity: str
    summary: str
    what_to_do: str


ALERTS = (
    Alert(
        "PulsarOldBacklog",
        "max by (cluster, topic, subscription) (pulsar_subscription_storage_backlog_age_seconds) > 3600",
        "10m",
        "warning",
        "The oldest unacknowledged message of {{ $labels.subscription }} is older than an hour.",
        "The stats of the topic say in `whyIdle` why the subscription gets nothing.",
    ),
    Alert(
        "PulsarBacklogGrows",
        "(sum by (cluster, topic, subscription) (deriv(pulsar_subscription_back_log[15m])) > 0) "
        "and (sum by (cluster, topic, subscription) (pulsar_subscription_consumers_count) > 0)",
        "15m",
        "warning",
        "The backlog of {{ $labels.subscription }} grows although consumers are connected.",
        "Add consumers, or look for consumers that do not acknowledge.",
    ),
    Alert(
        "PulsarBacklogWithoutConsumer",
        "(sum by (cluster, topic, subscription) (pulsar_subscription_back_log) > 0) "
        "and (sum by (cluster, topic, subscription) (pulsar_subscription_consumers_count) == 0)",
        "1h",
        "warning",
        "{{ $labels.subscription }} has a backlog and no consumer.",
        "Connect a consumer, or delete a subscription that nobody uses: it keeps all of its messages.",
    ),
    Alert(
        "PulsarConsumersBlocked",
        "max by (cluster, topic, subscription) (pulsar_subscription_blocked_on_unacked_messages) > 0",
        "10m",
        "warning",
        "{{ $labels.subscription }} gets nothing, because too many messages are not acknowledged.",
        "Look for consumers that receive and do not acknowledge.",
    ),
    Alert(
        "PulsarManyAckHoles",
        "max by (cluster, topic, subscription) (magnetar_subscription_ack_holes) > 10000",
        "30m",
        "warning",
        "{{ $labels.subscription }} has more acknowledged ranges behind holes than Apache's brokers store.",
        "`ackHoles` of the internal stats names the messages; fillAckHolesIntervalSeconds has them sent again.",
    ),
    Alert(
        "PulsarSlowPublishing",
        'max by (cluster, instance) (pulsar_broker_publish_latency{quantile="0.99"}) > 500',
        "10m",
        "critical",
        "One publish of a hundred takes longer than half a second on {{ $labels.instance }}.",
        "Compare with the sync of the bookies' journals.",
    ),
    Alert(
        "PulsarTopicUnreadable",
        "sum by (cluster, topic) (magnetar_storage_unreadable_entries) > 0",
        "0m",
        "critical",
        "{{ $labels.topic }} has entries that every bookie has lost.",
        "docs/LOST_MESSAGES.md says what can be done.",
    ),
    Alert(
        "PulsarBrokerUnhealthy",
        "min by (cluster, broker) (pulsar_health) == 0",
        "5m",
        "critical",
        "The last health check of {{ $labels.broker }} failed.",
        "The log of the broker has the reason.",
    ),
    Alert(
        "PulsarConsumedLedgersStay",
        "(sum by (cluster, namespace) (pulsar_storage_size) > 1e9) "
        "and (sum by (cluster, namespace) (pulsar_storage_backlog_size) == 0)",
        "6h",
        "info",
        "{{ $labels.namespace }} keeps more than a gigabyte that every subscription has acknowledged.",
        "Retention keeps acknowledged messages; `heldBy` of the internal stats says what else does.",
    ),
    Alert(
        "PulsarLoginsFail",
        "sum by (cluster, auth_method) (rate(pulsar_authentication_failures_total[5m])) > 1",
        "10m",
        "warning",
        "Logins by {{ $labels.auth_method }} fail.",
        "Tokens and certificates expire; the log of the broker has the reasons.",
    ),
    Alert(
        "BookieSlowJournal",
        'max by (instance) (bookie_journal_JOURNAL_SYNC{quantile="0.99", success="true"}) > 200',
        "10m",
        "warning",
        "One sync of a hundred takes longer than 200 ms on {{ $labels.instance }}.",
        "Give the journal a disk of its own.",
    ),
    Alert(
        "BookieDiskFull",
        "max by (instance) (bookie_ledger_dir_usage) > 85",
        "10m",
        "critical",
        "The ledgers' disk of {{ $labels.instance }} is more than 85 % full; at 95 % the bookie turns read-only.",
        "Add bookies, or shorten retention.",
    ),
    Alert(
        "BookieNotWritable",
        "min by (instance) (bookie_SERVER_STATUS) < 1",
        "5m",
        "critical",
        "{{ $labels.instance }} is read-only or not registered.",
        "The log of the bookie has the reason.",
    ),
    Alert(
        "BookKeeperCopiesMissing",
        "sum by (instance) (magnetar_replication_worker_ledgers_held) > 0",
        "30m",
        "warning",
        "Ledgers lack copies, and {{ $labels.instance }} cannot make them.",
        "`magnetar bk listunderreplicated` lists them.",
    ),
)


def rules_text(alerts: Sequence[Alert]) -> str:
    """Returns the rule file. A string in JSON is one in YAML, too."""
    lines = ["groups:", "  - name: magnetar", "    rules:"]
    for alert in alerts:
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {json.dumps(alert.expr)}",
            f"        for: {alert.lasts}",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            f"          summary: {json.dumps(alert.summary)}",
            f"          description: {json.dumps(alert.what_to_do)}",
        ]
    return "\n".join(lines) + "\n"
