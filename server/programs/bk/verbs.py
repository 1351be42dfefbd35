"""The table of the verbs of `magnetar bk`, with BookieShell's names. The module of a verb is imported only when the
verb runs.

Options may be written in BookieShell's form (`-rw`, `-ledgerid 5`) or in the usual long form.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from magnetar.server.programs.bk import verb_arguments as a


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb. `run` names, as "module:function" of this package, the coroutine function that takes the tool and the
    parsed arguments and returns the exit code. `options` adds the verb's options to its parser."""

    name: str
    summary: str
    run: str
    options: Callable[[argparse.ArgumentParser], object] = a.nothing
    examples: tuple[str, ...] = ()


CLUSTER = (
    Verb("initnewcluster", "make the records of a new cluster", "cluster_verbs:initnewcluster"),
    Verb("whatisinstanceid", "the cluster's instance id", "cluster_verbs:whatisinstanceid"),
    Verb(
        "listbookies",
        "the bookies that are there",
        "cluster_verbs:listbookies",
        a.which_bookies,
        ("listbookies -rw", "listbookies -a --json"),
    ),
    Verb("bookieinfo", "disk space of the bookies", "cluster_verbs:bookieinfo"),
    Verb(
        "endpointinfo",
        "the addresses that a bookie registered",
        "cluster_verbs:endpointinfo",
        a.bookie,
        ("endpointinfo 10.0.0.5:3181",),
    ),
    Verb("cookie_get", "a bookie's cookie", "cluster_verbs:cookie_get", a.bookie, ("cookie_get 10.0.0.5:3181",)),
    Verb(
        "cookie_create",
        "store a bookie's cookie from a file",
        "cluster_verbs:cookie_create",
        a.bookie_and_cookie_file,
        ("cookie_create -cf cookie.txt 10.0.0.5:3181",),
    ),
    Verb(
        "cookie_delete",
        "delete a bookie's cookie",
        "cluster_verbs:cookie_delete",
        a.bookie_forced,
        ("cookie_delete -f 10.0.0.5:3181",),
    ),
)

LEDGERS = (
    Verb(
        "listledgers",
        "the ids of all ledgers",
        "ledger_verbs:listledgers",
        a.which_ledgers,
        ("listledgers", "listledgers -meta -bookieid 10.0.0.5:3181"),
    ),
    Verb(
        "ledgermetadata",
        "a ledger's record",
        "ledger_verbs:ledgermetadata",
        a.ledger_metadata,
        ("ledgermetadata -l 12345", "ledgermetadata -l 12345 --dump-to-file 12345.metadata"),
    ),
    Verb(
        "readledger",
        "the entries of a ledger",
        "ledger_verbs:readledger",
        a.read_ledger,
        ("readledger -l 12345 -m", "readledger -l 12345 -fe 0 -le 9 -b 10.0.0.5:3181 --json"),
    ),
    Verb(
        "deleteledger",
        "delete a ledger",
        "ledger_verbs:deleteledger",
        a.ledger_forced,
        ("deleteledger -l 12345 -f",),
    ),
    Verb(
        "simpletest",
        "write a ledger, read it back, delete it",
        "ledger_verbs:simpletest",
        a.simple_test,
        ("simpletest -e 3 -w 3 -a 2 -n 1000",),
    ),
)

REPAIR = (
    Verb(
        "recover",
        "copy what bookies held to others",
        "recovery_verbs:recover",
        a.recover,
        (
            "recover -q 10.0.0.5:3181                    # which ledgers that would be",
            "recover 10.0.0.5:3181,10.0.0.6:3181 -f -d",
            "recover -l 12345 10.0.0.5:3181",
        ),
    ),
    Verb(
        "decommissionbookie",
        "retire a bookie that was stopped",
        "recovery_verbs:decommissionbookie",
        a.decommission,
        ("decommissionbookie -bookieid 10.0.0.5:3181",),
    ),
    Verb(
        "listunderreplicated",
        "the ledgers that lack copies",
        "recovery_verbs:listunderreplicated",
        a.underreplicated,
        ("listunderreplicated -pmr", "listunderreplicated -mr 10.0.0.5:3181 -c"),
    ),
    Verb("triggeraudit", "have the auditor look for lost bookies now", "recovery_verbs:triggeraudit"),
    Verb("whoisauditor", "which bookie is the auditor", "recovery_verbs:whoisauditor"),
    Verb(
        "lostbookierecoverydelay",
        "how long a lost bookie may take to come back",
        "recovery_verbs:lostbookierecoverydelay",
        a.recovery_delay,
        ("lostbookierecoverydelay -get", "lostbookierecoverydelay -set 600"),
    ),
    Verb(
        "autorecovery",
        "halt or continue auto-recovery in the whole cluster",
        "recovery_verbs:autorecovery",
        a.auto_recovery,
        ("autorecovery -disable", "autorecovery -enable", "autorecovery -status"),
    ),
)

FILES = (
    Verb(
        "journal",
        "what a bookie's journal files hold, ours or Apache's",
        "file_verbs:journal",
        a.journal_files,
        ("journal --conf bk_server.conf", "journal --journal-dir data/journal -id 3 -m"),
    ),
    Verb(
        "entrylog",
        "what a bookie's entry logs hold",
        "file_verbs:entrylog",
        a.entry_log_files,
        ("entrylog --ledger-dir data/ledgers -id 2", "entrylog --conf bk_server.conf -l 12345 -e 7 -m"),
    ),
    Verb(
        "index",
        "where a bookie's entries are",
        "file_verbs:index",
        a.index_files,
        ("index --ledger-dir data/ledgers", "index --conf bk_server.conf -l 12345 --json"),
    ),
    Verb(
        "check",
        "find damaged records in a bookie's files",
        "file_verbs:check",
        a.bookie_files,
        ("check --conf bk_server.conf", "check --journal-dir data/journal --ledger-dir data/ledgers --json"),
    ),
)

GROUPS = {
    "cluster and bookies": CLUSTER,
    "ledgers": LEDGERS,
    "repair": REPAIR,
    "a bookie's own files": FILES,
}
