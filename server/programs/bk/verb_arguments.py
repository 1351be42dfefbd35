"""The options of the verbs of `magnetar bk`. Each option has BookieShell's name, and a name in the usual long form."""

import argparse
from pathlib import Path

ArgumentParser = argparse.ArgumentParser

COUNT_MAX = 2**31 - 1


def nothing(parser: ArgumentParser) -> None:
    """Adds no options, for verbs without options of their own."""


def whole(text: str) -> int:
    if not text.isdecimal() or int(text) > 2**63 - 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number")
    return int(text)


def positive(text: str) -> int:
    if whole(text) == 0 or int(text) > COUNT_MAX:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 1 to {COUNT_MAX}")
    return int(text)


def seconds(text: str) -> int:
    if whole(text) > COUNT_MAX:
        raise argparse.ArgumentTypeError(f"'{text}' is more than {COUNT_MAX} seconds")
    return int(text)


def file_id(text: str) -> int:
    """Returns the number of a file. A file name such as 1f.journal, and a number such as 0x1f, are hexadecimal; a plain
    number is decimal."""
    stem = text.partition(".")[0] if "." in text else text
    try:
        return int(stem, 16 if stem.startswith("0x") or "." in text else 10)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is no file's id: a number, 0x…, or the file's name") from None


def bookies_list(text: str) -> list[str]:
    """Returns the bookie ids of a comma-separated list. BookieShell takes one bookie, which is a valid list, too."""
    bookies = [one.strip() for one in text.split(",") if one.strip()]
    if not bookies:
        raise argparse.ArgumentTypeError("name at least one bookie id")
    return bookies


def _force(parser: ArgumentParser) -> None:
    parser.add_argument("-f", "-force", "--force", action="store_true", help="do not ask")


def _messages(parser: ArgumentParser) -> None:
    parser.add_argument("-m", "-msg", "--msg", action="store_true", help="show the payloads too")


def _ledger(parser: ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument("-l", "-ledgerid", "--ledger-id", dest="ledger", type=whole, required=required, metavar="ID")


def which_bookies(parser: ArgumentParser) -> None:
    parser.add_argument("-rw", "--readwrite", action="store_true", help="those that take writes")
    parser.add_argument("-ro", "--readonly", action="store_true", help="those that only serve reads")
    parser.add_argument("-a", "--all", action="store_true", help="all that have a cookie, also those that are down")


def bookie(parser: ArgumentParser) -> None:
    parser.add_argument("bookie", metavar="BOOKIE_ID")


def bookie_forced(parser: ArgumentParser) -> None:
    bookie(parser)
    _force(parser)


def bookie_and_cookie_file(parser: ArgumentParser) -> None:
    bookie(parser)
    parser.add_argument("-cf", "--cookie-file", type=Path, required=True, metavar="FILE")


def which_ledgers(parser: ArgumentParser) -> None:
    parser.add_argument("-m", "-meta", "--meta", action="store_true", help="with their records")
    parser.add_argument("-bookieid", "--bookie-id", dest="bookie", metavar="ID", help="those that name this bookie")


def ledger_metadata(parser: ArgumentParser) -> None:
    _ledger(parser)
    way = parser.add_mutually_exclusive_group()
    way.add_argument("-dumptofile", "--dump-to-file", dest="dump", type=Path, metavar="FILE", help="its bytes")
    way.add_argument("-restorefromfile", "--restore-from-file", dest="restore", type=Path, metavar="FILE")
    parser.add_argument("-update", "--update", action="store_true", help="with restore: replace a record that is there")


def read_ledger(parser: ArgumentParser) -> None:
    _ledger(parser)
    parser.add_argument("-fe", "-firstentryid", "--first-entry-id", dest="first", type=whole, default=0, metavar="N")
    parser.add_argument("-le", "-lastentryid", "--last-entry-id", dest="last", type=whole, metavar="N")
    _messages(parser)
    parser.add_argument(
        "-r",
        "-force-recovery",
        "--force-recovery",
        dest="recover",
        action="store_true",
        help="fence and close it",
    )
    parser.add_argument("-b", "-bookie", "--bookie", dest="bookie", metavar="ID", help="only from this bookie")


def ledger_forced(parser: ArgumentParser) -> None:
    _ledger(parser)
    _force(parser)


def simple_test(parser: ArgumentParser) -> None:
    parser.add_argument("-e", "-ensemble", "--ensemble", type=positive, default=3, metavar="N", help="default 3")
    parser.add_argument("-w", "-writeQuorum", "--write-quorum", type=positive, default=2, metavar="N", help="default 2")
    parser.add_argument("-a", "-ackQuorum", "--ack-quorum", type=positive, default=2, metavar="N", help="default 2")
    parser.add_argument("-n", "-numEntries", "--num-entries", type=positive, default=100, metavar="N")
    parser.add_argument("--size", type=whole, default=100, metavar="BYTES", help="of an entry; default 100")


def recover(parser: ArgumentParser) -> None:
    parser.add_argument("bookies", type=bookies_list, metavar="BOOKIE_ID[,…]")
    parser.add_argument("-q", "--query", action="store_true", help="only list the ledgers that name these bookies")
    parser.add_argument("-dr", "--dry-run", action="store_true", help="only say what would be copied")
    _force(parser)
    _ledger(parser, required=False)
    parser.add_argument("-s", "--skip-open-ledgers", action="store_true", help="leave ledgers with a writer alone")
    parser.add_argument("-sku", "--skip-unrecoverable-ledgers", action="store_true", help="failures are no error")
    parser.add_argument(
        "-d", "-deleteCookie", "--delete-cookie", action="store_true", help="at the end, if all is copied"
    )
    parser.add_argument("-rate", "--replication-rate", type=positive, metavar="BYTES_A_SECOND")


def decommission(parser: ArgumentParser) -> None:
    parser.add_argument("-bookieid", "--bookie-id", dest="bookie", required=True, metavar="ID")
    parser.add_argument("--timeout", type=seconds, metavar="SECONDS", help="give up waiting then; default: never")


def underreplicated(parser: ArgumentParser) -> None:
    parser.add_argument("-mr", "-missingreplica", "--missing-replica", dest="missing", metavar="ID")
    parser.add_argument(
        "-emr", "-excludingmissingreplica", "--excluding-missing-replica", dest="excluding", metavar="ID"
    )
    parser.add_argument(
        "-pmr", "-printmissingreplica", "--print-missing-replica", dest="print_missing", action="store_true"
    )
    parser.add_argument(
        "-prw", "-printreplicationworkerid", "--print-replication-worker-id", dest="print_worker", action="store_true"
    )
    parser.add_argument(
        "-c", "-onlydisplayledgercount", "--only-display-ledger-count", dest="count", action="store_true"
    )


def recovery_delay(parser: ArgumentParser) -> None:
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("-g", "-get", "--get", action="store_true")
    way.add_argument("-s", "-set", "--set-delay", dest="set_delay", type=seconds, metavar="SECONDS")


def auto_recovery(parser: ArgumentParser) -> None:
    way = parser.add_mutually_exclusive_group()
    way.add_argument("-e", "-enable", "--enable", action="store_true")
    way.add_argument("-d", "-disable", "--disable", action="store_true")
    way.add_argument("-status", "--status", action="store_true", help="say which it is (the default)")


def bookie_files(parser: ArgumentParser) -> None:
    _journal_dirs(parser)
    _ledger_dirs(parser)


def journal_files(parser: ArgumentParser) -> None:
    _journal_dirs(parser)
    parser.add_argument("-id", "-journalid", "--journal-id", dest="file", type=file_id, metavar="ID")
    _ledger(parser, required=False)
    _messages(parser)


def entry_log_files(parser: ArgumentParser) -> None:
    _ledger_dirs(parser)
    parser.add_argument("-id", "-entrylogid", "--entry-log-id", dest="file", type=file_id, metavar="ID")
    _ledger(parser, required=False)
    parser.add_argument("-e", "-entryid", "--entry-id", dest="entry", type=whole, metavar="N")
    _messages(parser)


def index_files(parser: ArgumentParser) -> None:
    _ledger_dirs(parser)
    _ledger(parser, required=False)


def _journal_dirs(parser: ArgumentParser) -> None:
    parser.add_argument("--journal-dir", dest="journals", action="append", default=[], type=Path, metavar="DIR")


def _ledger_dirs(parser: ArgumentParser) -> None:
    parser.add_argument("--ledger-dir", dest="ledgers", action="append", default=[], type=Path, metavar="DIR")
