"""How Java's tool shows schemas (SchemaInfoImpl and SchemaUtils of the client)."""

import base64
import json
from typing import Any

_STRUCTURED = ("AVRO", "JSON", "PROTOBUF", "PROTOBUF_NATIVE", "KEY_VALUE")


def schema_info(name: str, answer: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of an answer of the REST interface as Jackson writes a SchemaInfo: the definition in base64,
    and once more as a text."""
    data = answer.get("data") or ""
    encoded = base64.b64encode(data.encode()).decode("ascii")
    return _info(name, encoded, answer) | {"schemaDefinition": data}


def shown_schema(name: str, answer: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema as SchemaInfo's toString shows it: the definition of a structured schema is an object, and any
    other definition is in base64."""
    data = answer.get("data") or ""
    if answer.get("type") in _STRUCTURED and data:
        try:
            return _info(name, json.loads(data), answer)
        except ValueError:
            return _info(name, data, answer)
    return _info(name, base64.b64encode(data.encode()).decode("ascii"), answer)


def _info(name: str, schema: Any, answer: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "schema": schema,
        "type": answer.get("type"),
        "timestamp": answer.get("timestamp", 0),
        "properties": answer.get("properties") or {},
    }
