"""How Java's tool shows schemas (SchemaInfoImpl and SchemaUtils of the client)."""

import base64
import json
from typing import Any

_STRUCTURED = ("AVRO", "JSON", "PROTOBUF")


def schema_info(name: str, answer: dict[str, Any], *, parsed: bool = False) -> dict[str, Any]:
    """Returns the schema of an answer of the REST interface. With `parsed`, the definition of a structured schema is
    an object; else the definition is in base64, as Jackson writes bytes."""
    data = answer.get("data") or ""
    kind = answer.get("type")
    schema: Any = data
    if parsed and kind in _STRUCTURED and data:
        try:
            schema = json.loads(data)
        except ValueError:
            schema = data
    elif not parsed:
        schema = base64.b64encode(data.encode()).decode("ascii")
    return {
        "name": name,
        "schema": schema,
        "type": kind,
        "timestamp": answer.get("timestamp", 0),
        "properties": answer.get("properties") or {},
    }
