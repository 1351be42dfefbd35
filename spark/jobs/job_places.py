"""The places of a job's files: what `--path`, `--checkpoint` and the like lead to, by `--storage-option`."""

import argparse
import importlib
from collections.abc import Callable, Iterable

from magnetar.spark.jobs.folder_lock import hold, hold_folder
from magnetar.spark.jobs.job_outcome import JobFailed
from magnetar.spark.jobs.progress import Teller
from magnetar.spark.jobs.storage.place import Place, place_of
from magnetar.spark.jobs.storage.storage_rules import OBJECT_SCHEMES, is_local, local_folder, parsed_options, scheme_of

PACKAGES = {"delta": ("deltalake",), "iceberg": ("pyiceberg", "sqlalchemy")}
STORE_PACKAGES = {"hdfs": "hdfs_native"} | dict.fromkeys(OBJECT_SCHEMES, "obstore")
"""The package by which the files below a URL are reached, by the URL's scheme."""
EXTRAS = {"hdfs_native": "hdfs"}
PATHS = ("path", "checkpoint", "parked", "out_path", "late_path", "sink")


def job_place(arguments: argparse.Namespace, url: str) -> Place:
    """Returns the place of a path or URL of a job. Raises StorageFault for an unknown scheme or a wrong option."""
    return place_of(url, parsed_options(getattr(arguments, "storage_option", ())))


def check_places(arguments: argparse.Namespace) -> None:
    """Checks, before Java starts, that the job's URLs are such as can be reached, and that the packages for them and
    for the kind of table are installed. Raises JobFailed and StorageFault."""
    kind = getattr(arguments, "merge", getattr(arguments, "format", ""))
    option = "--merge" if hasattr(arguments, "merge") else "--format"
    _need(PACKAGES.get(kind, ()), f"{option} {kind}")
    for name in PATHS:
        url = getattr(arguments, name, "")
        job_place(arguments, url)
        if package := STORE_PACKAGES.get(scheme_of(url)):
            _need([package], url)


def _need(packages: Iterable[str], what: str) -> None:
    for package in packages:
        try:
            importlib.import_module(package)
        except ModuleNotFoundError as error:
            name, extra = package.replace("_", "-"), EXTRAS.get(package, "lake")
            raise JobFailed(f"{what} needs {name}; install it with: pip install 'magnetar[{extra}]'") from error


def bring_checkpoint(arguments: argparse.Namespace, job: str) -> None:
    """If the checkpoint is at a URL, copies it to a folder of this machine, and puts that folder in the place of the
    URL in the arguments. `checkpoint_copy` is the copy, and None for a local checkpoint. The job holds the copy until
    its end. Raises FolderInUse when another run works with the checkpoint, and StorageFault."""
    arguments.checkpoint_copy = None
    if is_local(arguments.checkpoint):
        return
    from magnetar.spark.jobs.storage.checkpoint_copy import CheckpointCopy

    place = job_place(arguments, arguments.checkpoint)
    arguments.checkpoint_copy = CheckpointCopy(place, _waiting(arguments, job))
    hold(arguments.checkpoint_copy)
    arguments.checkpoint = arguments.checkpoint_copy.folder.as_uri()


def hold_place(arguments: argparse.Namespace, place: Place, job: str) -> None:
    """Locks a folder, at a path or a URL, until the end of the job. HDFS has no lock. Raises FolderInUse when another
    run holds the lock."""
    if place.is_local:
        hold_folder(local_folder(place.url))
    elif scheme_of(place.url) in OBJECT_SCHEMES:
        from magnetar.spark.jobs.storage.lease import Lease

        hold(Lease(place, _waiting(arguments, job)))


def _waiting(arguments: argparse.Namespace, job: str) -> Callable[[str], None]:
    """Returns the function that shows why the job waits for a lock."""
    teller = Teller(arguments.progress, job)
    return lambda said: teller.state("waiting", said)


def staging_place(arguments: argparse.Namespace, folder: str) -> Place:
    """Returns the place of a folder of the checkpoint that executors and driver both reach."""
    if arguments.checkpoint_copy is not None:
        place: Place = arguments.checkpoint_copy.place.below(folder)
        return place
    return job_place(arguments, arguments.checkpoint).below(folder)
