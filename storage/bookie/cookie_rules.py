"""Decides whether a bookie of a cluster may start: compares its cookie in ZooKeeper, the cookies in its folders, and
the cookie that its configuration asks for. No I/O.

The rules are those of LegacyCookieValidation in BookKeeper 4.17, and one more: a first start that broke off before the
cookie was in ZooKeeper may be continued. The rules guard against a bookie that comes up without the entries that it
acknowledged: with a folder that is not mounted, with another bookie's id, or in the wrong cluster.
"""

from collections.abc import Mapping, Sequence

from magnetar.storage.bookie.bookie_errors import DirectoryMismatch
from magnetar.storage.bookie.cookie import Cookie

FORMAT_ADVICE = (
    "If the bookie's data is lost, let its ledgers be copied from the others (magnetar bk decommissionbookie) before "
    "its cookie is deleted"
)


def check_cookies(
    mine: Cookie,
    registered: Cookie | None,
    found: Mapping[str, Cookie | None],
    files: Mapping[str, Sequence[str]],
    *,
    allow_storage_expansion: bool = False,
) -> bool:
    """Returns whether the cookie in ZooKeeper has to be written, for a new bookie or for a bookie with more folders
    than before.

    `mine` is the cookie that the configuration asks for, `registered` the cookie in ZooKeeper. `found` holds the cookie
    of each folder, and `files` the files in each folder besides cookie and lock. Raises DirectoryMismatch, which names
    the difference."""
    for directory, cookie in found.items():
        if cookie is not None:
            _compare(cookie, f"the cookie in {directory}", mine, allow_storage_expansion)
    if registered is not None:
        _compare(registered, "the cookie in ZooKeeper", mine, allow_storage_expansion)
    missing = [directory for directory, cookie in found.items() if cookie is None]
    for directory in missing:
        if files[directory]:
            raise DirectoryMismatch(
                f"{directory} holds files ({files[directory][0]}) but no cookie (VERSION): it is not this bookie's"
            )
    if registered is None:
        _check_unregistered(mine, found, files)
        return True
    _check_missing(registered, missing, found, allow_storage_expansion)
    return registered != mine


def _check_unregistered(mine: Cookie, found: Mapping[str, Cookie | None], files: Mapping[str, Sequence[str]]) -> None:
    for directory, cookie in found.items():
        if cookie is not None and any(files.values()):
            raise DirectoryMismatch(
                f"{directory} has the cookie of bookie {cookie.bookie_id} and there is data, but ZooKeeper has no "
                f"cookie of it: was {mine.bookie_id} decommissioned, or is this another cluster?"
            )


def _check_missing(
    registered: Cookie, missing: Sequence[str], found: Mapping[str, Cookie | None], allow_expansion: bool
) -> None:
    if missing and len(missing) == len(found):
        raise DirectoryMismatch(
            f"ZooKeeper has a cookie of bookie {registered.bookie_id}, but its directories are empty: is a disk not "
            f"mounted? {FORMAT_ADVICE}"
        )
    known = {*registered.ledger_directories, *registered.journal_directories}
    for directory in missing:
        if directory in known or not allow_expansion:
            raise DirectoryMismatch(
                f"{directory} has no cookie (VERSION), but ZooKeeper says that it is a folder of bookie "
                f"{registered.bookie_id}: is a disk not mounted? {FORMAT_ADVICE}"
            )


def _compare(cookie: Cookie, where: str, mine: Cookie, allow_expansion: bool) -> None:
    if cookie.bookie_id != mine.bookie_id:
        raise DirectoryMismatch(f"{where} is of bookie {cookie.bookie_id}, this is {mine.bookie_id}")
    if cookie.instance_id != mine.instance_id:
        raise DirectoryMismatch(
            f"{where} is of cluster instance {cookie.instance_id!r}, this cluster is {mine.instance_id!r}"
        )
    if cookie.journal_directories != mine.journal_directories:
        raise DirectoryMismatch(
            f"{where} says journalDirectories={','.join(cookie.journal_directories)}, "
            f"configured is {','.join(mine.journal_directories)}"
        )
    theirs, ours = cookie.ledger_directories, mine.ledger_directories
    added = set(theirs) < set(ours) and theirs == ours[: len(theirs)]
    if theirs != ours and not (added and allow_expansion):
        more = ": added ones need allowStorageExpansion=true" if added else ""
        raise DirectoryMismatch(
            f"{where} says ledgerDirectories={','.join(theirs)}, configured is {','.join(ours)}{more}"
        )
