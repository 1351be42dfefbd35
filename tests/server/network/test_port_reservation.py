"""Only one server can reserve a port; the others are told in a sentence who uses it."""

import os
import socket

import pytest

from magnetar.server.network.port_reservation import reserve_port
from magnetar.server.process.data_folder_lock import AlreadyInUseError


def test_reserved_port_refuses_clients_until_it_listens() -> None:
    with reserve_port("127.0.0.1", 0) as reserved:
        address = reserved.getsockname()
        with socket.socket() as client, pytest.raises(ConnectionRefusedError):
            client.connect(address)
        reserved.listen()
        with socket.socket() as client:
            client.connect(address)
            assert client.getpeername() == address


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
    user = f"pid {os.getpid()}"
    assert str(caught.value) == f"port {port} is in use by {user}: stop that process, or choose another port"
