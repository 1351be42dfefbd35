"""The network of a chaos run as a process: it carries packets between TUN devices by the rules that it is told.

Its arguments are a seed and the devices, as JSON: address → file descriptor. On stdin it gets one line of JSON for each
change, all rules that are not plain: [[from, to, rule], …]. It answers with a line once they hold, and ends with stdin.
"""

import asyncio
import json
import os
import random
import socket
import sys
from collections import Counter

from compat_tests.chaos.link_rules import LinkRule, rule_of

PACKET_BYTES_MAX = 65_536
PACKETS_A_TURN = 64
IPV4 = 4
PLAIN = LinkRule()


class Switch:
    """Carries IPv4 packets. A device whose queue is full loses packets, as any network card does."""

    def __init__(self, devices: dict[str, int], seed: str) -> None:
        self._devices = {socket.inet_aton(address): fd for address, fd in devices.items()}
        self._rules: dict[tuple[bytes, bytes], LinkRule] = {}
        self._choices = random.Random(seed)
        self._loop = asyncio.get_running_loop()
        self.counts: Counter[str] = Counter()
        for address, fd in self._devices.items():
            self._loop.add_reader(fd, self._carry, address, fd)

    def set_rules(self, rules: list[tuple[str, str, LinkRule]]) -> None:
        """Replaces all rules."""
        self._rules = {(socket.inet_aton(source), socket.inet_aton(to)): rule for source, to, rule in rules}

    def _carry(self, source: bytes, fd: int) -> None:
        for _ in range(PACKETS_A_TURN):
            try:
                packet = os.read(fd, PACKET_BYTES_MAX)
            except BlockingIOError:
                return
            to = packet[16:20]
            target = self._devices.get(to)
            if packet[0] >> 4 != IPV4 or target is None:
                continue
            rule = self._rules.get((source, to), PLAIN)
            if rule is PLAIN:
                self._write(target, packet)
            elif rule.loses(self._choices.random()):
                self.counts["lost"] += 1
            else:
                self.counts["late"] += 1
                self._loop.call_later(rule.delay, self._write, target, packet)

    def _write(self, target: int, packet: bytes) -> None:
        try:
            os.write(target, packet)
            self.counts["carried"] += 1
        except BlockingIOError:
            self.counts["overflowed"] += 1


async def main() -> None:
    seed, devices = sys.argv[1], json.loads(sys.argv[2])
    switch = Switch(devices, seed)
    commands = asyncio.StreamReader(limit=1 << 24)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    print("ready", flush=True)
    while line := await commands.readline():
        switch.set_rules([(source, to, rule_of(rule)) for source, to, rule in json.loads(line)])
        print(json.dumps(switch.counts), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
