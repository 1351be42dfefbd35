"""The measures of every check. The first of each list is the one that `--warn VALUE` without a name means."""

from magnetar.server.tools.messages.check_rules import Kind, Unit

CONNECT = Kind("connect", Unit.SECONDS, "the time from the first packet to CONNECTED", default_critical=5.0)
CERTIFICATE = Kind(
    "certificate",
    Unit.SECONDS,
    "how long the server's certificate is still valid",
    low_is_bad=True,
    default_warn=21 * 86400.0,
    default_critical=3 * 86400.0,
)
BACKLOG = Kind("backlog", Unit.COUNT, "messages that are not acknowledged yet")
PRODUCERS = Kind("producers", Unit.COUNT, "connected producers", low_is_bad=True)
SUBSCRIPTIONS = Kind("subscriptions", Unit.COUNT, "subscriptions of the topic", low_is_bad=True)
STORAGE = Kind("storage", Unit.BYTES, "bytes that the topic's ledgers hold")
RATE_IN = Kind("rate_in", Unit.COUNT, "messages that come in each second", low_is_bad=True)
AGE = Kind("age", Unit.SECONDS, "how long ago the oldest message of the backlog was published")
UNACKED = Kind("unacked", Unit.COUNT, "messages that consumers have and did not acknowledge")
CONSUMERS = Kind("consumers", Unit.COUNT, "connected consumers", low_is_bad=True)
RATE_OUT = Kind("rate_out", Unit.COUNT, "messages that go out each second", low_is_bad=True)
LATENCY = Kind("latency", Unit.SECONDS, "the longest time from sending a message to receiving it")
PUBLISH = Kind("publish", Unit.SECONDS, "the longest time from sending a message to its receipt")
USED = Kind("used", Unit.PERCENT, "how much of the fullest disk is used", default_warn=85.0, default_critical=95.0)
FREE = Kind("free", Unit.BYTES, "how much room the disk with the least of it has", low_is_bad=True)
BROKERS = Kind("brokers", Unit.COUNT, "brokers that are registered", low_is_bad=True, default_critical=1.0)

KINDS: dict[str, tuple[Kind, ...]] = {
    "connection": (CONNECT, CERTIFICATE),
    "topic": (BACKLOG, PRODUCERS, SUBSCRIPTIONS, STORAGE, RATE_IN),
    "subscription": (BACKLOG, AGE, UNACKED, CONSUMERS, RATE_OUT),
    "latency": (LATENCY, PUBLISH),
    "disk": (USED, FREE),
    "brokers": (BROKERS,),
}
