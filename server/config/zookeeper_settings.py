"""The settings of `magnetar zookeeper`, from a zoo.cfg that was written for Apache ZooKeeper, and overrides.

This module reads no broker.conf, so that a server of a few megabytes does not load the broker's settings.
"""

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from magnetar.metadata.zookeeper_server.server_settings import ZooKeeperSettings
from magnetar.server.config.properties_file import Assignment, parse_properties

log = logging.getLogger(__name__)

OVERRIDE_PLACE = "--set"
PORT = 2181
TICK_MS = 2000
TICKS_MIN, TICKS_MAX = 2, 20
"""The bounds of a session's timeout, in ticks, unless the configuration says otherwise."""
SERVER_KEY = re.compile(r"server\.[0-9]+")
MAX_INT = 2**31 - 1

WHOLE_NUMBERS = {
    "tickTime": (1, 3_600_000),
    "clientPort": (0, 65_535),
    "maxClientCnxns": (0, MAX_INT),
    "maxCnxns": (0, MAX_INT),
    "minSessionTimeout": (-1, MAX_INT),
    "maxSessionTimeout": (-1, MAX_INT),
    "jute.maxbuffer": (1024, 1 << 30),
    "znode.container.checkIntervalMs": (1, MAX_INT),
    "acceptMetadataGeneration": (0, 2**62),
}
TEXTS = (
    "dataDir",
    "dataLogDir",
    "clientPortAddress",
    "4lw.commands.whitelist",
    "DigestAuthenticationProvider.superDigest",
)
SERVER_FIELDS = {
    "maxClientCnxns": "connections_per_address_max",
    "maxCnxns": "connections_max",
    "jute.maxbuffer": "frame_bytes_max",
    "znode.container.checkIntervalMs": "container_check_ms",
}
"""The keys whose numbers are handed on unchanged, each with the field of `ZooKeeperSettings` that it sets."""
PROTECTIONS = {
    "secureClientPort": "TLS is not offered",
    "secureClientPortAddress": "TLS is not offered",
    "sessionRequireClientSASLAuth": "SASL is not offered",
    "enforce.auth.enabled": "every client may connect; records are protected by their ACLs",
}
"""Keys of protections that this server lacks, with the reason. A configuration with such a key is refused, so that
nobody believes that the protection is on."""
WITHOUT_EFFECT = re.compile(
    r"initLimit|syncLimit|electionAlg|peerType|standaloneEnabled|reconfigEnabled|autopurge\..*|admin\..*|syncEnabled|"
    r"quorum.*|metricsProvider\..*|clientPortListenBacklog|leaderServes|preAllocSize|snapCount|localSessions.*|"
    r"cnxTimeout|globalOutstandingLimit|forceSync|extendedTypesEnabled|dynamicConfigFile|server\.[0-9]+"
)
"""Keys of Apache ZooKeeper that mean nothing to a server of one node, or to this server."""


class ZooKeeperConfigError(Exception):
    """The configuration cannot be used. The text has one line for each fault, with its place, key and value."""


@dataclass(frozen=True, slots=True)
class ZooKeeperConfig:
    """The folders, the address and the settings of the server."""

    data_dir: str
    witness_dir: str
    """dataLogDir: the folder of the witness, a small file with the number of the metadata's commits, by which a start
    notices that the metadata is an old copy. The witness is best on another disk than `data_dir`."""
    port: int
    """clientPort: the port for clients; 0 picks a free port."""
    host: str
    accepted_generation: int | None
    settings: ZooKeeperSettings


def load_zookeeper_config(path: Path | None, overrides: Mapping[str, str]) -> ZooKeeperConfig:
    """Reads the file, if there is one, and then the overrides, which outrank the file. Raises ZooKeeperConfigError."""
    assignments: dict[str, Assignment] = {} if path is None else parse_properties(_read(path), os.fspath(path))
    for name, text in overrides.items():
        assignments[name] = Assignment(text.strip(), OVERRIDE_PLACE)
    values: dict[str, Any] = {}
    faults: list[str] = []
    ignored, unknown = [], []
    for name, (text, place) in assignments.items():
        key = name.removeprefix("zookeeper.")
        if key in WHOLE_NUMBERS:
            least, most = WHOLE_NUMBERS[key]
            if re.fullmatch(r"[+-]?[0-9]{1,18}", text) and least <= int(text) <= most:
                values[key] = int(text)
            else:
                faults.append(f"{place}: {name}={text}: expected a whole number from {least} to {most}")
        elif key in TEXTS:
            values[key] = text
        elif key in PROTECTIONS and text.lower() not in ("", "false"):
            faults.append(f"{place}: {name}={text}: this version does not have that: {PROTECTIONS[key]}")
        elif WITHOUT_EFFECT.fullmatch(key):
            ignored.append(name)
        elif key not in PROTECTIONS:
            unknown.append(name)
    servers = sorted(name for name in assignments if SERVER_KEY.fullmatch(name))
    if len(servers) > 1:
        place = assignments[servers[1]].place
        faults.append(f"{place}: {servers[1]}: this is a server of one node; several machines take a real ensemble")
    if faults:
        raise ZooKeeperConfigError("\n".join(faults))
    if ignored:
        log.info("without effect in this version: %s", ", ".join(ignored))
    if unknown:
        log.warning("unknown keys: %s", ", ".join(unknown))
    return _config_of(values)


def _config_of(values: Mapping[str, Any]) -> ZooKeeperConfig:
    """Returns the settings for values that are in their ranges. Raises ZooKeeperConfigError when values contradict each
    other."""
    tick_ms = values.get("tickTime", TICK_MS)
    shortest, longest = values.get("minSessionTimeout", -1), values.get("maxSessionTimeout", -1)
    shortest = TICKS_MIN * tick_ms if shortest < 0 else shortest
    longest = TICKS_MAX * tick_ms if longest < 0 else longest
    if shortest > longest:
        raise ZooKeeperConfigError(f"minSessionTimeout={shortest} must not exceed maxSessionTimeout={longest}")
    digest = values.get("DigestAuthenticationProvider.superDigest")
    chosen = {field: values[key] for key, field in SERVER_FIELDS.items() if key in values}
    settings = ZooKeeperSettings(
        tick_ms=tick_ms,
        session_timeout_min_ms=shortest,
        session_timeout_max_ms=longest,
        command_whitelist=_whitelist(values.get("4lw.commands.whitelist", "")),
        super_digest=digest.encode() if digest else None,
        **chosen,
    )
    data_dir = values.get("dataDir") or "data/zookeeper"
    return ZooKeeperConfig(
        data_dir=data_dir,
        witness_dir=values.get("dataLogDir") or data_dir,
        port=values.get("clientPort", PORT),
        host=values.get("clientPortAddress") or "127.0.0.1",
        accepted_generation=values.get("acceptMetadataGeneration"),
        settings=settings,
    )


def _whitelist(text: str) -> frozenset[str]:
    """Returns the four-letter words that the server answers. `srvr` is always among them, because Apache's scripts need
    it."""
    from magnetar.metadata.zookeeper_server.four_letter_words import WORDS

    words = {word.strip() for word in text.split(",") if word.strip()}
    return frozenset(WORDS) if "*" in words else frozenset(words | {"srvr"})


def _read(path: Path) -> str:
    try:
        # Java reads Latin-1, in which every byte is a character, so no file is refused for its encoding.
        return path.read_bytes().decode("latin-1")
    except OSError as error:
        raise ZooKeeperConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
