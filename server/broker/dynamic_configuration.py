"""The configuration that an administrator changes while brokers run. All brokers of a cluster share this configuration.

The configuration is one record in the metadata store, /admin/configuration. Any broker writes the record by
compare-and-set. Every broker applies the record at its start, watches the record, and applies each change at once. When
a key is removed, its setting gets the value of broker.conf again.

The settings of the broker's parts are frozen objects that are handed to constructors. Only this module changes these
objects, and it changes them in place: code that reads a setting at each use sees the new value, and code that has built
something from a setting is told by a listener. Source: BrokerService (updateConfigurationAndRegisterListeners,
handleDynamicConfigurationUpdates).
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from magnetar.metadata import paths
from magnetar.metadata.cluster_init import to_json
from magnetar.metadata.compare_and_set import update_record
from magnetar.metadata.coordination.record_cache import RecordCache
from magnetar.metadata.store import MetadataStore
from magnetar.server.config.dynamic_rules import contradiction, fault_of, fields_of, is_dynamic, text_of, without_effect
from magnetar.server.config.honoured_keys import KEYS
from magnetar.server.config.key_kinds import Value
from magnetar.server.policies.namespace_records import parse_object
from pulsar_proto.errors import MetadataFault

log = logging.getLogger(__name__)

Listener = Callable[[frozenset[str]], None]
"""A function that is called with the names of the fields that have changed. A listener must not raise and must not
block."""


class ConfigurationRefused(Exception):
    """Raised when a change of the configuration is refused. The error's text is for the administrator."""


@dataclass(slots=True)
class _Held:
    """A settings object whose fields may change."""

    settings: Any
    from_file: dict[str, Any]
    """Field -> its value of broker.conf, which holds while the record does not have the field's key."""
    listeners: list[Listener]


class DynamicConfiguration:
    """The changeable part of one broker's configuration. Every method is called on the event loop's thread."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._held: list[_Held] = []
        self._cache = RecordCache(store, paths.CONFIGURATION, _parse, on_change=lambda path: self._apply())
        self._told: list[str] = []
        """The faults of the record that were logged already."""

    def hold(self, settings: object, listener: Listener | None = None) -> None:
        """Makes the fields of a settings object changeable. Called before `start`, or after `start` for a part that is
        built later. `listener` is called after fields of `settings` have changed. An object may be held more than once,
        with different listeners."""
        held = next((each for each in self._held if each.settings is settings), None)
        if held is None:
            named = {field.name: getattr(settings, field.name) for field in fields(settings)}  # type: ignore[arg-type]
            held = _Held(settings, named, [])
            self._held.append(held)
        if listener is not None:
            held.listeners.append(listener)
        self._apply()

    async def start(self) -> None:
        """Applies the record and begins to watch the record. Creates an empty record if there is none, as Apache's
        first broker does. Raises MetadataError or MetadataFault when the record cannot be read or created."""
        self._cache.start()
        if await self._cache.get(paths.CONFIGURATION) is None:
            await update_record(self._store, paths.CONFIGURATION, lambda old: to_json({}) if old is None else None)
            await self._cache.refresh(paths.CONFIGURATION)
        self._apply()

    def close(self) -> None:
        self._cache.close()

    @property
    def values(self) -> Mapping[str, str]:
        """The content of the record: key -> the value that an administrator has set. Keys that have no effect in this
        broker are included."""
        copy = self._cache.cached(paths.CONFIGURATION)
        return {} if copy is None else copy.value

    def in_force(self) -> dict[str, str]:
        """Returns key -> present value, for every key whose field belongs to an object that `hold` was called with.
        Secrets are left out."""
        held = self._fields()
        shown = ((key, field) for key in KEYS.values() if not key.is_secret for field in key.fields)
        return {key.name: text_of(held[field]) for key, field in shown if field in held}

    async def set(self, name: str, text: str) -> None:
        """Sets the value of one key. This broker applies the value at once, and the cluster's other brokers when they
        see the changed record. Raises ConfigurationRefused for a key or value that is not allowed, and MetadataError or
        MetadataFault when the record cannot be changed."""
        if not is_dynamic(name):
            raise ConfigurationRefused("Can't update non-dynamic configuration")
        fault = fault_of(name, text) or self._contradiction({**self.values, name: text})
        if fault is not None:
            raise ConfigurationRefused(fault)
        for key in without_effect((name,), self._fields()):
            log.warning("%s was changed for the cluster; it has no effect in this broker", key)
        await self._update(lambda record: record | {name: text})

    async def remove(self, name: str) -> None:
        """Removes one key from the record, so that its setting gets the value of broker.conf again. Raises
        ConfigurationRefused for a key that may not change, and MetadataError or MetadataFault when the record cannot be
        changed."""
        if not is_dynamic(name):
            raise ConfigurationRefused("Can't delete non-dynamic configuration")
        await self._update(lambda record: {key: text for key, text in record.items() if key != name})

    async def _update(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        def change_record(old: bytes | None) -> bytes:
            return to_json(change({} if old is None else _object(old)))

        self._cache.wrote(paths.CONFIGURATION, await update_record(self._store, paths.CONFIGURATION, change_record))
        self._apply()

    def _fields(self) -> dict[str, Any]:
        return {name: getattr(held.settings, name) for held in self._held for name in held.from_file}

    def _contradiction(self, record: Mapping[str, str]) -> str | None:
        """Returns the reason why the settings cannot have the values of `record` together, or None when they can."""
        values, _ = fields_of(record)
        for held in self._held:
            wanted = _wanted(held, values)
            try:
                replace(held.settings, **wanted)
            except ValueError as error:
                return str(error)
            fault = contradiction(wanted)
            if fault is not None:
                return fault
        return None

    def _apply(self) -> None:
        """Gives the held settings objects the values of the record and of broker.conf. An object whose new values
        contradict each other does not change."""
        values, faults = fields_of(self.values)
        for fault in faults:
            if fault not in self._told:
                log.warning("%s: %s", paths.CONFIGURATION, fault)
        self._told = faults
        for held in self._held:
            _apply_to(held, _wanted(held, values))


def _wanted(held: _Held, values: Mapping[str, Value]) -> dict[str, Any]:
    return {name: values.get(name, from_file) for name, from_file in held.from_file.items()}


def _apply_to(held: _Held, wanted: Mapping[str, Any]) -> None:
    changed = frozenset(name for name, value in wanted.items() if getattr(held.settings, name) != value)
    if not changed:
        return
    try:
        replace(held.settings, **wanted)
        fault = contradiction(wanted)
    except ValueError as error:
        fault = str(error)
    if fault is not None:
        log.warning("%s is not applied: %s", paths.CONFIGURATION, fault)
        return
    for name in changed:
        object.__setattr__(held.settings, name, wanted[name])
    log.info("changed while running: %s", ", ".join(sorted(changed)))
    for listener in held.listeners:
        listener(changed)


def _parse(path: str, value: bytes) -> dict[str, str]:
    """Returns key -> text of the record. Raises MetadataFault when the record is not a map of texts."""
    record = _object(value)
    if not all(isinstance(text, str) for text in record.values()):
        raise MetadataFault(f"{path} does not hold texts only")
    return record


def _object(value: bytes) -> dict[str, Any]:
    return parse_object(paths.CONFIGURATION, value, "a map of texts")
