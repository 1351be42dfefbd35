"""Makes topics that are being loaded take transactions."""

from magnetar.server.topics.topic import Topic
from magnetar.server.topics.transactions.readable_log import CommittedLog
from magnetar.server.topics.transactions.topic_transactions import TopicTransactions
from pulsar_proto.system_topics import is_system_topic


async def recover_transactions(topic: Topic, transactions: TopicTransactions) -> None:
    """Makes the topic take transactions, and recovers those that are in its log. Called once, before `Topic.prepare`. A
    topic that the broker itself writes takes none. Raises ManagedLedgerError when the log cannot be read, and
    PulsarError when the topic's snapshot cannot be read."""
    if is_system_topic(topic.name):
        return
    topic.readable_log = CommittedLog(topic.ledger)
    if topic.compaction is not None:
        topic.compaction.read_through(topic)
    topic.transaction_maker = transactions
    recovered = await transactions.recovered(topic.name, topic.ledger)
    if recovered is not None:
        topic.use_transactions(recovered)
