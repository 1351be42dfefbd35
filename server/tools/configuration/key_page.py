"""Makes docs/CONFIGURATION.md of the tables of keys. Does no I/O."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from magnetar.server.config import (
    autorecovery_keys,
    bookie_keys,
    bookie_tls_keys,
    broker_keys,
    honoured_keys,
    key_kinds,
    transaction_keys,
)
from magnetar.server.config.honoured_keys import UNSAFE_TO_IGNORE
from magnetar.server.config.key_kinds import Key
from magnetar.server.config.known_keys import KNOWN
from magnetar.server.config.missed_keys import NOT_HERE
from magnetar.server.config.unused_reasons import reason_of
from magnetar.server.tools.configuration.key_reference import KeyEntry, entries, honoured

INTRODUCTION = """\
# Configuration keys

Keys have the names of Apache's `broker.conf`, `standalone.conf` and `bk_server.conf`, and a file that was written for
Apache's servers can be used as it is. `--conf FILE` names it, and `--set KEY=VALUE` outranks it. A file holds lines
`key=value`. A key that is set to nothing keeps its default, except a port, which is then off.

This page is made from the tables that the servers read (`magnetar config --page`). The same command tells about one
key, or about all of them:

```sh
magnetar config managedLedgerCacheSizeMB
magnetar config
magnetar config --program bookie -o json
```

A value out of its range, or two values that contradict each other, stop the start with a sentence for each. A key that
has no effect is named in a warning at the start. So is a key that Apache does not know either, with the key that was
probably meant.

**Dynamic** keys can change while brokers run. Such a change holds for all brokers of the cluster, survives restarts,
and outranks the file:

```sh
magnetar admin brokers update-dynamic-config --config maxConcurrentLookupRequest --value 20000
magnetar admin brokers get-all-dynamic-config
magnetar admin brokers delete-dynamic-config --config maxConcurrentLookupRequest
```

In the tables, *where* says which program obeys the key: S is `magnetar standalone`, B `magnetar broker`, K `magnetar
bookie` and A `magnetar autorecovery`. A default that is not the same in all of them is told for each.
"""

ABSENT = """\
## Keys without effect

These keys of Apache's have no effect here.
"""

SHORT = {"standalone": "S", "broker": "B", "bookie": "K", "autorecovery": "A"}
BROKERS = ("standalone", "broker")
BOOKIES = ("bookie", "autorecovery")


class Section(NamedTuple):
    """A table of the page."""

    title: str
    keys: tuple[Key, ...]


BROKER_SECTIONS = (
    Section("Addresses and ports", honoured_keys.SERVER),
    Section("Client connections", (*honoured_keys.CONNECTIONS, *honoured_keys.FAULTS)),
    Section("The web port", honoured_keys.HTTP),
    Section("Topics and subscriptions", honoured_keys.TOPICS),
    Section("Policies that hold unless a namespace or topic has its own", honoured_keys.POLICIES),
    Section("Authentication, authorization and TLS", honoured_keys.SECURITY),
    Section("Transactions", transaction_keys.TRANSACTIONS),
    Section("Ledgers of topics", honoured_keys.MANAGED_LEDGERS),
    Section("The client of bookies", (*honoured_keys.LEDGER_CLIENT, *broker_keys.BOOKKEEPER)),
    Section("TLS to bookies", bookie_tls_keys.BROKER_BOOKIE_TLS),
    Section("The bookie of a standalone server", (*honoured_keys.BOOKIE, *honoured_keys.STANDALONE_START)),
    Section("Metrics", honoured_keys.METRICS),
    Section("The cluster's metadata", (*broker_keys.METADATA, *broker_keys.PROCESS)),
    Section("Other brokers", honoured_keys.PEERS),
    Section("Bundles", honoured_keys.BUNDLES),
    Section("Load", broker_keys.BROKER_LOAD),
)
BOOKIE_SECTIONS = (
    Section("The process", bookie_keys.PROCESS),
    Section("Storage", bookie_keys.STORAGE),
    Section("Auto-recovery", autorecovery_keys.REPAIR),
    Section("Auto-recovery's client", autorecovery_keys.CLIENT),
    Section("TLS", bookie_tls_keys.BOOKIE_TLS),
    Section("Protections that are not here", bookie_keys.MISSING),
)


def page() -> str:
    """Returns the whole page."""
    parts = [INTRODUCTION, "## Keys of brokers\n", *_tables(BROKER_SECTIONS, BROKERS)]
    parts += ["## Keys of bookies and auto-recovery\n", *_tables(BOOKIE_SECTIONS, BOOKIES), ABSENT, *_absent()]
    return "\n".join(parts)


def _tables(sections: Iterable[Section], programs: tuple[str, ...]) -> Iterator[str]:
    told: set[str] = set()
    for title, keys in sections:
        names = [key.name for key in keys if key.name not in told]
        told.update(names)
        rows = [row for name in names if (row := _row(name, programs))]
        if rows:
            yield f"### {title}\n"
            yield "\n".join(("| key | where | default | value | effect |", "|---|---|---|---|---|", *rows, ""))


def _row(name: str, programs: tuple[str, ...]) -> str:
    """Returns the row of a key, or an empty text for a key without effect in these programs."""
    of = {entry.program: entry for entry in entries() if entry.name == name and entry.program in programs}
    if not of:
        return ""
    first = next(iter(of.values()))
    effect = f"{first.effect} **Dynamic.**" if any(entry.is_dynamic for entry in of.values()) else first.effect
    cells = (f"`{name}`", " ".join(SHORT[each] for each in of), _defaults(of), _values(first), effect)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _defaults(of: Mapping[str, KeyEntry]) -> str:
    texts = {SHORT[program]: entry.default for program, entry in of.items()}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return ", ".join(f"{short}: {text or 'empty'}" for short, text in texts.items())


def _values(entry: KeyEntry) -> str:
    """Returns which values the key takes. A range that ends where Java's numbers end is told as one without an end."""
    return re.sub(rf" to ({key_kinds.MAX_INT}|{key_kinds.MAX_LONG}|2\.14748e\+09)\b", " up", entry.accepts)


def _absent() -> Iterator[str]:
    missed = [f"| `{name}` | {each.says} |" for name, each in NOT_HERE.items() if name not in honoured()]
    yield "### Keys whose effect clients miss\n\nThe start warns of each that asks for something.\n"
    yield "\n".join(("| key | what becomes of it |", "|---|---|", *missed, ""))
    refused = [f"| `{name}` | {why} |" for name, why in UNSAFE_TO_IGNORE.items()]
    yield "### Protections that are refused\n\nA configuration that turns one of these on stops the start.\n"
    yield "\n".join(("| key | why |", "|---|---|", *refused, ""))
    groups: dict[str, list[str]] = {}
    for name in sorted(KNOWN - honoured() - NOT_HERE.keys() - UNSAFE_TO_IGNORE.keys()):
        groups.setdefault(reason_of(name) or "", []).append(name)
    rest = groups.pop("", [])
    yield "### Other keys\n"
    for reason, names in groups.items():
        yield f"- {reason[:1].upper()}{reason[1:]}: {_listed(names)}\n"
    yield f"- Nothing here corresponds to: {_listed(rest)}\n"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
