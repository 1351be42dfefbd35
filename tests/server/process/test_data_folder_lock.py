"""Only one server can use a data folder or a port; the others are told in a sentence who uses it."""

import os
import socket
from pathlib import Path

import pytest

from magnetar.server.network.port_reservation import reserve_port
from magnetar.server.process.data_folder_lock import LOCK_FILE, AlreadyInUseError, DataFolderLock


def test_second_lock_names_folder_and_pid(tmp_path: Path) -> None:
    lock = DataFolderLock(tmp_path / "data")
    with pytest.raises(AlreadyInUseError) as caught:
        DataFolderLock(tmp_path / "data")
    assert str(caught.value) == f"data folder {tmp_path / 'data'} is in use by pid {os.getpid()}"
    lock.release()


def test_released_lock_can_be_taken_again_over_a_stale_pid(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).write_text("99999999999999999999\n")
    lock = DataFolderLock(tmp_path)
    assert (tmp_path / LOCK_FILE).read_text() == f"{os.getpid()}\n"
    lock.release()
    DataFolderLock(tmp_path).release()


def test_reserved_port_refuses_clients_until_it_listens() -> None:
    with reserve_port("127.0.0.1", 0) as reserved:
        address = reserved.getsockname()
        with socket.socket() as client, pytest.raises(ConnectionRefusedError):
            client.connect(address)
        reserved.listen()
        with socket.socket() as client:
            client.connect(address)
            assert client.getpeername() == address


def test_a_folder_that_cannot_be_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=f"^data folder {tmp_path}/file: a file of that name is there$"):
        DataFolderLock(tmp_path / "file")
    with pytest.raises(OSError, match=f"^data folder {tmp_path}/file/below cannot be used: Not a directory$"):
        DataFolderLock(tmp_path / "file" / "below")


def test_an_address_of_another_machine_is_named() -> None:
    with pytest.raises(OSError, match=r"^cannot listen on 192\.0\.2\.1 port 0: Cannot assign requested address$"):
        reserve_port("192.0.2.1", 0)


def test_a_host_that_nobody_knows_is_named() -> None:
    with pytest.raises(OSError, match=r"^cannot listen on nobody\.invalid: "):
        reserve_port("nobody.invalid", 0)


def test_port_of_a_listener_is_refused_with_its_pid() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(AlreadyInUseError) as caught:
            reserve_port("127.0.0.1", port)
    assert str(caught.value) == f"port {port} is in use by pid {os.getpid()}"
