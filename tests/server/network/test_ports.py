"""Which ports are opened, and which addresses clients are told."""

import socket
from pathlib import Path

import pytest

from compat_tests.certificates import Authority
from magnetar.server.config.broker_config import ConfigError, load_config
from magnetar.server.config.key_kinds import PORT_OFF
from magnetar.server.network.bind_addresses import BindAddress
from magnetar.server.network.ports import PortChoice, chosen_ports, reserve_ports
from magnetar.server.process.data_folder_lock import AlreadyInUseError
from magnetar.server.security.security_errors import SecurityConfigError

HOST = "127.0.0.1"
ANY = PortChoice(broker=0, web=0)


def with_tls(folder: Path, **more: str) -> dict[str, str]:
    made = Authority(folder).issue("broker")
    return {"tlsCertificateFilePath": str(made.certificate), "tlsKeyFilePath": str(made.key), **more}


def test_the_command_line_outranks_the_configuration() -> None:
    config = load_config(None, {"brokerServicePort": "1", "webServicePort": "2", "webServicePortTls": "3"}).broker
    assert chosen_ports(PortChoice(broker=7, broker_tls=8), config) == (7, 8, 2, 3)


@pytest.mark.parametrize("key", ["brokerServicePort", "webServicePort"])
def test_one_port_of_each_kind_must_be_there(key: str) -> None:
    config = load_config(None, {key: ""}).broker
    with pytest.raises(ConfigError, match=f"{key} and {key}Tls are both off"):
        chosen_ports(PortChoice(), config)
    assert chosen_ports(PortChoice(PORT_OFF, 1, PORT_OFF, 2), config) == (PORT_OFF, 1, PORT_OFF, 2)


def test_each_port_has_its_address(tmp_path: Path) -> None:
    config = load_config(None, with_tls(tmp_path))
    ports = reserve_ports(config, PortChoice(0, 0, 0, 0), HOST, "example.org")
    try:
        assert [url.rpartition(":")[0] for url in ports.urls] == [
            "pulsar://example.org",
            "pulsar+ssl://example.org",
            "http://example.org",
            "https://example.org",
        ]
        assert [each.tls is not None for each in (*ports.broker, *ports.web)] == [False, True, False, True]
        assert len({url.rpartition(":")[2] for url in ports.urls}) == 4
    finally:
        ports.close()


def test_a_port_that_is_off_has_no_address(tmp_path: Path) -> None:
    config = load_config(None, with_tls(tmp_path, brokerServicePort="", webServicePort=""))
    ports = reserve_ports(config, PortChoice(broker_tls=0, web_tls=0), HOST, HOST)
    ports.close()
    assert (ports.urls.broker, ports.urls.web) == ("", "")
    assert len(ports.broker) == len(ports.web) == 1


def test_tls_without_files_is_refused_before_a_port_is_bound() -> None:
    with pytest.raises(SecurityConfigError, match="needs tlsCertificateFilePath"):
        reserve_ports(load_config(None, {}), ANY._replace(broker_tls=0), HOST, HOST)


def test_bind_addresses_are_bound_beside_the_ports(tmp_path: Path) -> None:
    further = [BindAddress("inside", "pulsar", HOST, 0), BindAddress("outside", "pulsar+ssl", HOST, 0)]
    ports = reserve_ports(load_config(None, with_tls(tmp_path)), ANY, HOST, HOST, further)
    try:
        assert [(each.listener, each.tls is not None) for each in ports.broker] == [
            ("", False),
            ("inside", False),
            ("outside", True),
        ]
        assert len({each.sock.getsockname()[1] for each in ports.broker}) == 3
        assert ports.urls.broker_tls == "", "the port of all listeners has no TLS"
        with socket.socket() as taken:
            taken.bind((HOST, 0))
            taken.listen()
            last = BindAddress("inside", "pulsar", HOST, taken.getsockname()[1])
            with pytest.raises(AlreadyInUseError):
                reserve_ports(load_config(None, {}), ANY, HOST, HOST, [last])
    finally:
        ports.close()


def test_bind_addresses_may_be_the_only_ones_for_clients() -> None:
    further = [BindAddress("inside", "pulsar", HOST, 0)]
    config = load_config(None, {"brokerServicePort": "", "webServicePort": "0"})
    ports = reserve_ports(config, PortChoice(), HOST, HOST, further)
    ports.close()
    assert ([each.listener for each in ports.broker], ports.urls.broker) == (["inside"], "")
    with pytest.raises(ConfigError, match="webServicePort and webServicePortTls are both off"):
        chosen_ports(PortChoice(), load_config(None, {"webServicePort": ""}).broker, further)


def test_a_port_in_use_gives_the_others_back() -> None:
    with socket.socket() as taken, socket.socket() as probe:
        taken.bind((HOST, 0))
        taken.listen()
        probe.bind((HOST, 0))
        free = probe.getsockname()[1]
        probe.close()
        choice = PortChoice(broker=free, web=taken.getsockname()[1])
        with pytest.raises(AlreadyInUseError, match=str(taken.getsockname()[1])):
            reserve_ports(load_config(None, {}), choice, HOST, HOST)
        with socket.socket() as again:
            again.bind((HOST, free))
