"""Schemas between the official client and the rules: what a producer announces, and how received values are decoded."""

from pathlib import Path
from typing import Any

from magnetar.server.tools.messages.message_client import import_client, sentence
from magnetar.server.tools.messages.tool_errors import ToolError, UsageError
from magnetar.server.tools.messages.value_schema_rules import (
    DEFINED_TYPES,
    TEXT_TYPES,
    WRITTEN_TYPES,
    Encoder,
    encoder_of,
    parse_definition,
)
from pulsar_proto.values.avro_decoding import Decoder
from pulsar_proto.values.value_decoding import decoder_of

REGISTRY = "registry"
"""The value of --schema that stands for the topic's newest schema."""
SCHEMA_BYTES_MAX = 1 << 20
LATEST = -1


class WrittenSchema:
    """What a producer announces, as a type and a text, and the encoder of its values."""

    def __init__(self, kind: str, definition: str, encoder: Encoder) -> None:
        self.kind = kind
        self.definition = definition
        self.encode = encoder

    def of_client(self) -> Any:
        """Returns the schema for `create_producer`. It announces the type and takes values that are encoded already."""
        from pulsar import _pulsar
        from pulsar.schema.schema import Schema

        class EncodedSchema(Schema):  # type: ignore[misc]
            def __init__(self, info: Any) -> None:
                self._schema_info = info

            def encode(self, obj: bytes) -> bytes:
                return obj

            def decode(self, data: bytes) -> bytes:
                return data

        return EncodedSchema(_pulsar.SchemaInfo(getattr(_pulsar.SchemaType, self.kind), "", self.definition))


def schema_of_options(schema: str, schema_type: str) -> WrittenSchema | None:
    """Returns the schema that --schema (a file) and --schema-type describe, or None when neither is given. Raises
    ToolError."""
    kind = schema_type.upper()
    if not schema:
        if kind in DEFINED_TYPES:
            raise UsageError(f"--schema-type {kind} needs --schema FILE, or --schema {REGISTRY}")
        return WrittenSchema(kind, "", encoder_of(kind, {})) if kind not in ("", "BYTES") else None
    try:
        with Path(schema).open("rb") as file:
            text = file.read(SCHEMA_BYTES_MAX).decode()
        named, definition = parse_definition(text)
        kind = kind or named or "AVRO"
        if named and named != kind:
            raise ToolError(f"--schema-type is {kind}, but {schema} holds a schema of the type {named}")
        return _written(kind, definition)
    except OSError as error:
        raise ToolError(f"--schema: {schema}: {error.strerror}") from None
    except ValueError as error:
        raise ToolError(f"--schema: {schema}: {error}") from None


def schema_of_registry(client: Any, topic: str) -> WrittenSchema:
    """Returns the newest schema of a topic. Raises ToolError when the topic has none, or one whose values cannot be
    written."""
    import json

    pulsar = import_client()
    try:
        info = client._client.get_schema_info(topic, LATEST)
    except pulsar.PulsarException as error:
        raise ToolError(
            f"{topic} has no schema in the registry, or the server does not show it: {sentence(error)}"
        ) from None
    kind = info.schema_type().name
    if kind not in WRITTEN_TYPES:
        raise ToolError(
            f"{topic} has a schema of the type {kind}; values of these can be written: {', '.join(WRITTEN_TYPES)}"
        )
    try:
        return _written(kind, json.loads(info.schema()) if kind in DEFINED_TYPES else {})
    except ValueError as error:
        raise ToolError(f"the schema of {topic}: {error}") from None


def _written(kind: str, definition: dict[str, Any]) -> WrittenSchema:
    import json

    if kind not in DEFINED_TYPES:
        return WrittenSchema(kind, "", encoder_of(kind, {}))
    if not definition:
        raise ValueError(f"a schema of the type {kind} needs a definition")
    return WrittenSchema(kind, json.dumps(definition), encoder_of(kind, definition))


class ValueDecoder:
    """Decodes received values by the schemas in the registry, each of which is fetched once. Values whose schema cannot
    be had, or that do not fit it, are shown as bytes; `complaint` is the first reason."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._decoders: dict[tuple[str, int], tuple[Decoder | None, bool]] = {}
        self.complaint = ""

    def decode(self, topic: str, version: int, data: bytes) -> tuple[Any, bool]:
        """Returns what JSON shows of the value, and whether its bytes are what people read. Raises ValueError when the
        value is shown as bytes."""
        key = (topic, version)
        if key not in self._decoders:
            self._decoders[key] = self._fetch(topic, version)
        decoder, is_text = self._decoders[key]
        if decoder is None:
            raise ValueError
        try:
            return decoder(data), is_text
        except (ValueError, RecursionError) as error:
            self.complaint = self.complaint or f"values that do not fit the schema are shown as bytes: {error}"
            raise ValueError from None

    def _fetch(self, topic: str, version: int) -> tuple[Decoder | None, bool]:
        pulsar = import_client()
        try:
            info = self._client._client.get_schema_info(topic, version)
            kind = info.schema_type().name
            return decoder_of(kind, info.schema() if kind in DEFINED_TYPES else ""), kind in TEXT_TYPES
        except (pulsar.PulsarException, ValueError) as error:
            self.complaint = self.complaint or f"version {version} of the schema of {topic} cannot be used: {error}"
            return None, False
