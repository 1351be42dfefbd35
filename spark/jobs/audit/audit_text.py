"""What an audit shows to people: a table of the subscriptions and one of the tenants, with sizes and times that can be
read."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from magnetar.server.tools.admin.terminal_rules import visible
from magnetar.spark.jobs.audit.audit_rules import UNKNOWN, SubscriptionRow, by_base_topic, by_tenant

UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
SUBSCRIPTIONS = ("topic", "subscription", "backlog", "holes", "stored", "skew", "idle", "")
TENANTS = ("tenant", "topics", "entries", "stored", "in", "messages in", "out", "messages out")
TEXTS = ("topic", "subscription", "tenant", "")
"""The headings of columns that hold words. The others hold numbers, which end at their column's right edge."""


def size_text(count: float) -> str:
    """Returns a number of bytes with at most one decimal: `999 B`, `1.5 kB`, `12.3 MB`."""
    power = 0
    while count >= 999.95 and power < len(UNITS) - 1:
        count, power = count / 1000, power + 1
    return f"{count:.1f} {UNITS[power]}" if power else f"{count:.0f} B"


def hours_text(hours: float) -> str:
    """Returns a length of time as `45 s`, `12 min`, `5.5 h` or `3.2 d`. Returns `unknown` for a time that is not
    known."""
    if hours == UNKNOWN:
        return "unknown"
    if hours * 60 < 1:
        return f"{hours * 3600:.0f} s"
    if hours < 1:
        return f"{hours * 60:.0f} min"
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} d"


def time_text(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns the lines of a table whose columns are as wide as their widest cell. Characters that would move a
    terminal's cursor are shown by their numbers, because anybody may name a topic."""
    lines = [heading, *([visible(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heading))]
    padded = (
        [
            cell.ljust(width) if name in TEXTS else cell.rjust(width)
            for name, cell, width in zip(heading, line, widths, strict=True)
        ]
        for line in lines
    )
    return "\n".join("  ".join(cells).rstrip() for cells in padded)


def subscriptions_table(rows: Sequence[SubscriptionRow]) -> str:
    """Returns a line for each subscription, the largest backlog first. The partitions of a topic share one line."""
    lines = []
    for each in sorted(by_base_topic(rows), key=lambda each: -each["backlog"]):
        topic = each["topic"] + (f" ({each['partitions']} partitions)" if each["partitions"] > 1 else "")
        idle = hours_text(each["idle_hours"]) if each["subscription"] else ""
        lines.append(
            (
                topic,
                each["subscription"] or "(none)",
                f"{each['backlog']:,}",
                f"{each['ack_holes']:,}",
                size_text(each["storage_bytes"]),
                str(each["skew"]),
                idle,
                "orphan" if each["orphans"] else "",
            )
        )
    return table(SUBSCRIPTIONS, lines)


def tenants_table(rows: Sequence[SubscriptionRow]) -> str:
    """Returns a line for each tenant with what its topics hold, and what came in and went out since they were
    loaded."""
    return table(TENANTS, [_tenant_line(tenant, usage) for tenant, usage in by_tenant(rows).items()])


def _tenant_line(tenant: str, usage: Mapping[str, int]) -> tuple[str, ...]:
    return (
        tenant,
        f"{usage['topics']:,}",
        f"{usage['entries']:,}",
        size_text(usage["storage_bytes"]),
        size_text(usage["bytes_in"]),
        f"{usage['messages_in']:,}",
        size_text(usage["bytes_out"]),
        f"{usage['messages_out']:,}",
    )
