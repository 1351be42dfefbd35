"""A network namespace with a TUN device for each node of a chaos run, and the switch between them."""

import ctypes
import fcntl
import itertools
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from compat_tests.chaos.link_rules import LinkRule

CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN_WITHOUT_HEADER = 0x400454CA, 0x1001
SIOCSIFADDR, SIOCSIFNETMASK, SIOCSIFMTU, SIOCSIFFLAGS = 0x8916, 0x891C, 0x8922, 0x8914
UP_AND_RUNNING = 0x41
MTU = 16_000
"""Large packets keep the switch's work small."""
DEVICE = "eth0"
NETMASK = "255.255.255.0"
CLIENTS = "clients"
"""The node of the chaos program itself."""

Direction = tuple[str, str]


class Network:
    """Nodes by name, each with an address. The first node is this process, which must be in a network namespace of its
    own. A fault is a rule on some directions; several on one direction add up."""

    def __init__(self, nodes: Iterable[str], seed: int) -> None:
        self.addresses = {name: f"10.77.0.{number}" for number, name in enumerate((CLIENTS, *nodes), 1)}
        self._namespaces: dict[str, int] = {}
        self._devices: dict[str, int] = {CLIENTS: _device(self.addresses[CLIENTS])}
        for name in nodes:
            self._add(name)
        self._faults: dict[object, tuple[frozenset[Direction], LinkRule]] = {}
        self._lock = threading.Lock()
        self.counts: dict[str, int] = {}
        """What became of packets, as the switch counts it."""
        by_address = {self.addresses[name]: fd for name, fd in self._devices.items()}
        self._switch = subprocess.Popen(
            [sys.executable, "-m", "compat_tests.chaos.switch", str(seed), json.dumps(by_address)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=list(by_address.values()),
            bufsize=0,
        )
        self._answer()

    def enter(self, name: str) -> list[str]:
        """Returns the words that precede a command to run it on a node."""
        return ["nsenter", f"--net=/proc/{os.getpid()}/fd/{self._namespaces[name]}", "--"]

    def begin(self, fault: object, directions: Iterable[Direction], rule: LinkRule) -> None:
        """Puts a rule on directions; when this returns, it holds. `fault` is the name by which it ends."""
        with self._lock:
            self._faults[fault] = (frozenset(directions), rule)
            self._tell()

    def end(self, fault: object) -> None:
        """Takes a rule back. Has no effect when it has ended."""
        with self._lock:
            if self._faults.pop(fault, None) is not None:
                self._tell()

    def heal(self) -> None:
        """Takes all rules back."""
        with self._lock:
            self._faults.clear()
            self._tell()

    def close(self) -> None:
        """Ends the switch and gives the devices back."""
        assert self._switch.stdin is not None
        assert self._switch.stdout is not None
        self._switch.stdin.close()
        self._switch.wait(30)
        self._switch.stdout.close()
        for fd in itertools.chain(self._devices.values(), self._namespaces.values()):
            os.close(fd)

    def _tell(self) -> None:
        rules: dict[Direction, LinkRule] = {}
        for directions, rule in self._faults.values():
            for each in directions:
                rules[each] = rule.joined(rules.get(each, LinkRule()))
        told = [(self.addresses[a], self.addresses[b], asdict(rule)) for (a, b), rule in rules.items()]
        assert self._switch.stdin is not None
        self._switch.stdin.write(json.dumps(told).encode() + b"\n")
        self.counts = json.loads(self._answer())

    def _answer(self) -> bytes:
        assert self._switch.stdout is not None
        line: bytes = self._switch.stdout.readline()
        if not line:
            raise RuntimeError(f"the switch ended with {self._switch.wait()}")
        return line

    def _add(self, name: str) -> None:
        """Makes a namespace with its device on a thread of its own, because a thread cannot come back from one without
        harm if something fails. The descriptor keeps the namespace alive."""
        made: dict[str, Any] = {}

        def make() -> None:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.unshare(CLONE_NEWNET) != 0:
                made["fault"] = OSError(ctypes.get_errno(), "unshare of the network")
                return
            made["namespace"] = os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY)
            made["device"] = _device(self.addresses[name])

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        if "device" not in made:
            raise made.get("fault") or RuntimeError(f"no device for {name}")
        self._namespaces[name], self._devices[name] = made["namespace"], made["device"]


def _device(address: str) -> int:
    """Makes a TUN device in the calling thread's network namespace and returns its descriptor. Raises OSError."""
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TUN_WITHOUT_HEADER))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, SIOCSIFADDR, _address(address))
        fcntl.ioctl(sock, SIOCSIFMTU, struct.pack("16si20x", DEVICE.encode(), MTU))
        for name in (b"lo", DEVICE.encode()):
            fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sH22x", name, UP_AND_RUNNING))
        fcntl.ioctl(sock, SIOCSIFNETMASK, _address(NETMASK))
    return fd


def _address(address: str) -> bytes:
    """Returns a `struct ifreq` with the device's name and an IPv4 address."""
    return struct.pack("16sHH4s16x", DEVICE.encode(), socket.AF_INET, 0, socket.inet_aton(address))
