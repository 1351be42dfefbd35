"""Files, locks and checkpoints in a folder and in stores, each of which is a service on this machine."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.spark.s3_server import S3Server
from compat_tests.spark.store_server import StoreServer
from compat_tests.spark.stores import STORES, STORES_OF_TESTS
from magnetar.spark.jobs.storage import checkpoint_copy, lease
from magnetar.spark.jobs.storage.checkpoint_copy import CheckpointCopy
from magnetar.spark.jobs.storage.lease import Lease
from magnetar.spark.jobs.storage.object_store import ObjectStore
from magnetar.spark.jobs.storage.place import Place, place_of
from magnetar.spark.jobs.storage.storage_rules import LOCK_FILE, FolderInUse, StorageFault

pytestmark = pytest.mark.process

HELD = """
import sys
from magnetar.spark.jobs.storage.lease import Lease
from magnetar.spark.jobs.storage.place import place_of
lease = Lease(place_of(sys.argv[1], {}), print)
print("held", flush=True)
input()
"""


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture(scope="module", params=["folder", *STORES_OF_TESTS])
def store(request: pytest.FixtureRequest) -> Iterator[StoreServer | None]:
    if request.param == "folder":
        yield None
        return
    with STORES[request.param]() as server:
        yield server


@pytest.fixture
def place(store: StoreServer | None, tmp_path: Path) -> Place:
    return Place(str(tmp_path / "folder")) if store is None else place_of_test(store, tmp_path)


def place_of_test(store: StoreServer, tmp_path: Path) -> Place:
    return place_of(store.url(f"{tmp_path.parent.name}/{tmp_path.name}"), store.options)


def test_files_are_written_listed_copied_and_removed(place: Place) -> None:
    store = place.open()
    assert (store.read("a/b"), store.names(), store.names("a")) == (None, [], [])
    store.write("a/b", b"1")
    store.write("a/b", b"22")
    store.write("c", b"3")
    assert (store.read("a/b"), store.names(), store.names("a")) == (b"22", ["a/b", "c"], ["a/b"])
    assert (store.copy("a/b", "d/e"), store.copy("none", "c")) == (True, False)
    with store.open("d/e") as file:
        assert (file.read(1), file.seek(0), file.read()) == (b"2", 0, b"22")
    with pytest.raises(FileNotFoundError):
        store.open("none").read()
    store.delete("a/b")
    store.delete("a/b")
    assert store.names() == ["c", "d/e"]


def test_of_several_that_create_a_file_one_succeeds(place: Place) -> None:
    store, created = place.open(), []

    def create(number: int) -> None:
        created.append(store.create("once", b"%d" % number))

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(created) == [False] * 7 + [True]
    assert store.names() == ["once"]
    content = store.read("once")
    assert content is not None
    assert store.create("once", content)  # as when the answer to the first attempt was lost


@pytest.mark.parametrize("store", ["s3", pytest.param("azure", marks=pytest.mark.long)], indirect=True)
def test_a_file_is_replaced_only_by_one_who_knows_its_content(place: Place) -> None:
    """Folders are locked by the operating system, and HDFS by nobody."""
    store = place.open()
    assert isinstance(store, ObjectStore)
    store.write("file", b"1")
    found = store.read_version("file")
    assert found is not None
    later = store.replace("file", b"2", found[1])
    assert later is not None
    assert store.replace("file", b"3", found[1]) is None
    store.delete("file")
    assert store.replace("file", b"3", later) is None


def test_a_store_that_refuses_is_named(s3: S3Server) -> None:
    store = place_of("s3://no-such-bucket/a", s3.options).open()
    with pytest.raises(StorageFault, match=r"^s3://no-such-bucket/a: .*\(The specified bucket does not exist\)$"):
        store.write("file", b"1")


def test_a_lock_is_held_until_its_owner_ends_or_is_killed(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "WATCH_SECONDS", 300)
    place, said = place_of_test(s3, tmp_path), list[str]()
    command = [sys.executable, "-c", HELD, place.url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(s3.environment)) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(FolderInUse, match=f"another run works in {place.url}"):
            Lease(place, said.append)  # there is a sign of life while it watches
        assert "watching for 300 s" in said[0]
        other.kill()
        other.wait()
        Lease(place, said.append).close()  # its process is gone, which this machine knows without watching
    assert (len(said), place.open().names()) == (1, [])


def test_a_run_that_lost_its_lock_learns_it(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = place_of_test(s3, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(lease, "SIGN_SECONDS", 3600)
        slow = Lease(place, print)
        patch.setattr(lease, "WATCH_SECONDS", 0)
        other = Lease(place, print)
    slow._ended.set()
    slow._thread.join()
    monkeypatch.setattr(lease, "SIGN_SECONDS", 0)
    slow._ended.clear()
    slow._sign()  # the sign of life that was late
    with pytest.raises(FolderInUse, match="another run has taken over"):
        slow.check()
    slow.close()
    assert place.open().names() == [LOCK_FILE]  # it is the other's
    other.check()
    other.close()
    assert place.open().names() == []


def planned(copy: CheckpointCopy, number: int, text: str = "v1") -> None:
    """Writes what Spark writes before a batch."""
    for name in ("metadata", f"offsets/{number}", f"offsets/.{number}.crc"):
        path = copy.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def test_a_checkpoint_is_there_for_the_next_run(s3: S3Server, tmp_path: Path) -> None:
    place = place_of_test(s3, tmp_path)
    copy = CheckpointCopy(place, print)
    for number in (0, 1):
        planned(copy, number)
        copy.keep()
        copy.keep_done(number)
        copy.keep()  # the job ended before Spark wrote that the batch is done
    (copy.folder / "offsets" / "0").unlink()
    planned(copy, 2)
    copy.keep()
    copy.close()
    assert not copy.folder.exists()
    again = CheckpointCopy(place, print)
    files = sorted(path.relative_to(again.folder).as_posix() for path in again.folder.rglob("*") if path.is_file())
    assert files == ["commits/0", "commits/1", "metadata", "offsets/1", "offsets/2"]
    assert (again.folder / "commits" / "1").read_text() == 'v1\n{"nextBatchWatermarkMs":0}'
    again.close()


def test_of_two_runs_that_plan_the_same_batch_the_second_one_ends(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_of_test(s3, tmp_path)
    monkeypatch.setattr(checkpoint_copy, "_lease", lambda *given: None)  # as when the lock did not keep them apart
    first, second = CheckpointCopy(place, print), CheckpointCopy(place, print)
    planned(first, 0, "first")
    first.keep()
    planned(second, 0, "second")
    with pytest.raises(FolderInUse, match="has written metadata meanwhile"):
        second.keep()
    (second.folder / "metadata").write_text("first")
    with pytest.raises(FolderInUse, match="has written offsets/0 meanwhile"):
        second.keep()
    assert place.open().read("offsets/0") == b"first"
    first.close()
    second.close()


def test_this_process_is_not_taken_for_a_dead_one() -> None:
    own = f'{{"host": "{lease._machine()}", "pid": {os.getpid()}}}'.encode()
    elsewhere = b'{"host": "elsewhere", "pid": 1}'
    assert not lease._is_dead(own)
    assert not lease._is_dead(elsewhere)
