"""Avro schemas as trees: parsed by the rules of Java's Avro library, and printed in the format of that library.

This module must agree with Apache's broker on which texts are schemas, on which schemas are equal and on the texts of
error messages, because this broker and Apache's broker can share one registry. Source: org.apache.avro.Schema and its
Parser, 1.11, without validation of defaults, because Apache's broker parses with
Schema.Parser.setValidateDefaults(false). `tests/vectors/avro_resolution.json` holds results of Java's library 1.11.4.

This module has its own parser, although this server uses fastavro elsewhere, which has a parser too. Unlike Java,
fastavro 1.13 takes texts that are no schemas (a name twice in a record or a union, a union within a union, names with
other characters, a record without fields, a fixed type without a usable size, an unknown order), refuses texts that
Java takes (a default or a decimal's scale that does not fit), skips all checks of an object with the key
`__fastavro_parsed`, which a client may send, and has no bound on depth. With fastavro, this module would still need
every check, and in addition a second walk over fastavro's result.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NAME = re.compile(r"[^\W\d]\w*")
_SCHEMA_KEYS = frozenset(
    ("doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases")
)
_ENUM_KEYS = _SCHEMA_KEYS | {"default"}
_FIELD_KEYS = frozenset(("default", "doc", "name", "order", "type", "aliases"))
_ORDERS = ("ascending", "descending", "ignore")

DEPTH_MAX = 200
"""How deep types may be nested. Every walk over a tree is a recursion, so a deeper schema is refused."""


class AvroParseError(ValueError):
    """Raised when a text is no Avro schema. The error's text says why."""


class AvroKind(Enum):
    """The kinds of types. All primitive types are one kind; the `name` of an AvroSchema says which primitive type it
    is."""

    PRIMITIVE = "primitive"
    RECORD = "record"
    ERROR = "error"
    ENUM = "enum"
    FIXED = "fixed"
    ARRAY = "array"
    MAP = "map"
    UNION = "union"


class NoDefault(Enum):
    """Stands for the missing default of a field. The value None cannot stand for a missing default, because None is the
    default null."""

    NO_DEFAULT = "no default"


@dataclass(slots=True, eq=False)
class AvroField:
    name: str
    schema: "AvroSchema"
    default: Any = NoDefault.NO_DEFAULT
    doc: str | None = None
    order: str = "ascending"
    aliases: tuple[str, ...] = ()
    props: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class AvroSchema:
    """One type of a schema, with the types inside it. A record may contain itself, so schemas are compared by
    `same_schema`, never by ==."""

    kind: AvroKind
    name: str
    """For a primitive type, the name of the type, such as `long`. For a named type, the last part of the full name."""
    namespace: str | None = None
    doc: str | None = None
    aliases: tuple[str, ...] = ()
    """The aliases, as full names."""
    fields: list[AvroField] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    enum_default: str | None = None
    size: int = 0
    inner: "AvroSchema | None" = None
    """The type of an array's items or of a map's values."""
    branches: "tuple[AvroSchema, ...]" = ()
    """The types of a union."""
    props: Mapping[str, Any] = field(default_factory=dict)
    """The keys of the JSON object that the Avro specification does not define, with their values."""

    @property
    def full_name(self) -> str:
        return f"{self.namespace}.{self.name}" if self.namespace else self.name

    @property
    def is_record(self) -> bool:
        return self.kind in (AvroKind.RECORD, AvroKind.ERROR)

    @property
    def is_named(self) -> bool:
        return self.is_record or self.kind in (AvroKind.ENUM, AvroKind.FIXED)


def parse_avro(text: str | bytes) -> AvroSchema:
    """Parses the text of an Avro schema. Raises AvroParseError when the text is no Avro schema."""
    try:
        tree = json.loads(text)
        return _Parser().parse(tree, None, 0)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise AvroParseError(f"not JSON: {error}") from error


class _Parser:
    """Parses one text. In all methods, `space` is the namespace of the enclosing type, and `depth` is the number of
    enclosing types."""

    def __init__(self) -> None:
        self._names: dict[str, AvroSchema] = {}

    def parse(self, tree: Any, space: str | None, depth: int) -> AvroSchema:
        if depth > DEPTH_MAX:
            raise AvroParseError(f"types are nested deeper than {DEPTH_MAX}")
        if isinstance(tree, str):
            return self._by_name(tree, space)
        if isinstance(tree, list):
            return self._union(tree, space, depth)
        if not isinstance(tree, dict):
            raise AvroParseError(f"Schema not yet supported: {tree!r}")
        type_name = tree.get("type")
        if not isinstance(type_name, str):
            raise AvroParseError(f"No type: {_short(tree)}")
        match type_name:
            case "record" | "error":
                return self._record(tree, type_name, space, depth)
            case "enum":
                return self._enum(tree, space)
            case "fixed":
                return self._fixed(tree, space)
            case "array" | "map":
                key = "items" if type_name == "array" else "values"
                if key not in tree:
                    raise AvroParseError(f"{type_name} has no {key}: {_short(tree)}")
                inner = self.parse(tree[key], space, depth + 1)
                return AvroSchema(AvroKind(type_name), type_name, inner=inner, props=_props(tree, _SCHEMA_KEYS))
            case _ if type_name in PRIMITIVES:
                return AvroSchema(AvroKind.PRIMITIVE, type_name, props=_props(tree, _SCHEMA_KEYS))
        known = self._names.get(_full(type_name, space))
        if known is None:
            raise AvroParseError(f"Type not supported: {type_name}")
        return known

    def _by_name(self, name: str, space: str | None) -> AvroSchema:
        if name in PRIMITIVES:
            return AvroSchema(AvroKind.PRIMITIVE, name)
        known = self._names.get(_full(name, space))
        if known is None:
            raise AvroParseError(f'Undefined name: "{name}"')
        return known

    def _union(self, tree: list[Any], space: str | None, depth: int) -> AvroSchema:
        """Parses the branches of a union. Source: the constructor of Schema.UnionSchema."""
        branches = tuple(self.parse(branch, space, depth + 1) for branch in tree)
        seen = set()
        for branch in branches:
            if branch.kind is AvroKind.UNION:
                raise AvroParseError("Nested union")
            if branch.full_name in seen:
                raise AvroParseError(f"Duplicate in union:{branch.full_name}")
            seen.add(branch.full_name)
        return AvroSchema(AvroKind.UNION, "union", branches=branches)

    def _define(self, tree: dict[str, Any], kind: AvroKind, space: str | None) -> AvroSchema:
        """Returns the named type without its content. From now on other types, and the type's own content, can refer to
        the type by its name. Sources: Schema.Names.put, NamedSchema."""
        name = tree.get("name")
        if not isinstance(name, str):
            raise AvroParseError(f"No name in schema: {_short(tree)}")
        namespace = space
        if isinstance(tree.get("namespace"), str):
            namespace = tree["namespace"]
        if "." in name:
            namespace, _, name = name.rpartition(".")
        # As in Java (Schema.Name), a namespace may be any text: Avro 1.8 gave nested classes namespaces ending in "$".
        _check_name(name)
        if not namespace and name in PRIMITIVES:
            raise AvroParseError(f"Schemas may not be named after primitives: {name}")
        aliases = tuple(_full(alias, namespace or None) for alias in _aliases(tree))
        for alias in aliases:
            _check_name(alias.rpartition(".")[2])
        keys = _ENUM_KEYS if kind is AvroKind.ENUM else _SCHEMA_KEYS
        schema = AvroSchema(kind, name, namespace or None, _doc(tree), aliases=aliases, props=_props(tree, keys))
        if schema.full_name in self._names:
            raise AvroParseError(f"Can't redefine: {schema.full_name}")
        self._names[schema.full_name] = schema
        return schema

    def _record(self, tree: dict[str, Any], type_name: str, space: str | None, depth: int) -> AvroSchema:
        """Parses the definition of a record. Source: Schema.parse, RecordSchema.setFields."""
        schema = self._define(tree, AvroKind(type_name), space)
        fields = tree.get("fields")
        if not isinstance(fields, list):
            raise AvroParseError(f"Record has no fields: {_short(tree)}")
        names: set[str] = set()
        for each in fields:
            parsed = self._field(each, schema.namespace, depth)
            if parsed.name in names:
                raise AvroParseError(f"Duplicate field {parsed.name} in record {schema.full_name}")
            names.add(parsed.name)
            schema.fields.append(parsed)
        return schema

    def _field(self, tree: Any, space: str | None, depth: int) -> AvroField:
        if not isinstance(tree, dict) or not isinstance(tree.get("name"), str):
            raise AvroParseError(f"No field name: {_short(tree)}")
        name = tree["name"]
        _check_name(name)
        if "type" not in tree:
            raise AvroParseError(f"No field type: {_short(tree)}")
        order = tree.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in _ORDERS:
            raise AvroParseError(f"No order is named {order!r}")
        return AvroField(
            name,
            self.parse(tree["type"], space, depth + 1),
            tree.get("default", NoDefault.NO_DEFAULT),
            _doc(tree),
            order.lower(),
            tuple(_aliases(tree)),
            _props(tree, _FIELD_KEYS),
        )

    def _enum(self, tree: dict[str, Any], space: str | None) -> AvroSchema:
        """Parses the definition of an enum. Source: the constructor of Schema.EnumSchema."""
        schema = self._define(tree, AvroKind.ENUM, space)
        symbols = tree.get("symbols")
        if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
            raise AvroParseError(f"Enum has no symbols: {_short(tree)}")
        for symbol in symbols:
            _check_name(symbol)
        if len(set(symbols)) != len(symbols):
            raise AvroParseError(f"Duplicate enum symbol in {schema.full_name}")
        schema.symbols = tuple(symbols)
        schema.enum_default = tree.get("default")
        if schema.enum_default is not None and schema.enum_default not in symbols:
            raise AvroParseError(f"The Enum Default: {schema.enum_default} is not in the enum symbol set")
        return schema

    def _fixed(self, tree: dict[str, Any], space: str | None) -> AvroSchema:
        """Parses the definition of a fixed type. Source: Schema.parse, the constructor of Schema.FixedSchema."""
        schema = self._define(tree, AvroKind.FIXED, space)
        size = tree.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise AvroParseError(f"Invalid or no size: {_short(tree)}")
        schema.size = size
        return schema


def _check_name(name: str) -> None:
    """Raises AvroParseError for a name that Schema.validateName refuses."""
    if not _NAME.fullmatch(name):
        raise AvroParseError(f"Illegal name: {name!r}")


def _full(name: str, space: str | None) -> str:
    """Returns the full name that `name` stands for within the namespace `space`."""
    return name if "." in name or not space else f"{space}.{name}"


def _doc(tree: dict[str, Any]) -> str | None:
    doc = tree.get("doc")
    return doc if isinstance(doc, str) else None


def _aliases(tree: dict[str, Any]) -> list[str]:
    aliases = tree.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise AvroParseError(f"aliases not an array of names: {_short(tree)}")
    return aliases


def _props(tree: dict[str, Any], reserved: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in tree.items() if key not in reserved}


def _short(tree: Any) -> str:
    text = json.dumps(tree)
    return text if len(text) <= 200 else text[:200] + "…"


def same_schema(one: AvroSchema, other: AvroSchema) -> bool:
    """Whether Java's Schema.equals holds for the two schemas. Documentation, aliases and an enum's default do not
    count."""
    return json.dumps(_to_json(one, None, set(), False)) == json.dumps(_to_json(other, None, set(), False))


def pretty(schema: AvroSchema) -> str:
    """Returns the text that Java's Schema.toString(true) returns for the schema."""
    return _pretty(_to_json(schema, None, set(), True), 0)


def _to_json(schema: AvroSchema, space: str | None, seen: set[str], full: bool) -> Any:
    """Returns the schema as JSON. `space` is the namespace of the enclosing type. Types in `seen` were written before,
    so only the name of such a type is written. Without `full`, leaves out the parts that do not count for equality, and
    sorts the unknown keys."""
    props = schema.props if full else dict(sorted(schema.props.items()))
    if schema.kind is AvroKind.PRIMITIVE:
        return {"type": schema.name, **props} if props else schema.name
    if schema.kind is AvroKind.UNION:
        return [_to_json(branch, space, seen, full) for branch in schema.branches]
    if schema.inner is not None:
        key = "items" if schema.kind is AvroKind.ARRAY else "values"
        return {"type": schema.name, key: _to_json(schema.inner, space, seen, full), **props}
    if schema.full_name in seen:
        return schema.name if schema.namespace == space else schema.full_name
    seen.add(schema.full_name)
    tree: dict[str, Any] = {"type": schema.kind.value, "name": schema.name}
    if schema.namespace != space:
        tree["namespace"] = schema.namespace or ""
    if full and schema.doc is not None:
        tree["doc"] = schema.doc
    if schema.is_record:
        tree["fields"] = [_field_to_json(each, schema.namespace, seen, full) for each in schema.fields]
    elif schema.kind is AvroKind.ENUM:
        tree["symbols"] = list(schema.symbols)
        if full and schema.enum_default is not None:
            tree["default"] = schema.enum_default
    else:
        tree["size"] = schema.size
    tree |= props
    if full and schema.aliases:
        prefix = f"{schema.namespace}." if schema.namespace else ""
        tree["aliases"] = [_without(alias, prefix) for alias in schema.aliases]
    return tree


def _field_to_json(each: AvroField, space: str | None, seen: set[str], full: bool) -> dict[str, Any]:
    tree: dict[str, Any] = {"name": each.name, "type": _to_json(each.schema, space, seen, full)}
    if full and each.doc is not None:
        tree["doc"] = each.doc
    if each.default is not NoDefault.NO_DEFAULT:
        tree["default"] = each.default
    if each.order != "ascending":
        tree["order"] = each.order
    if full and each.aliases:
        tree["aliases"] = list(each.aliases)
    return tree | (dict(each.props) if full else dict(sorted(each.props.items())))


def _without(alias: str, prefix: str) -> str:
    """Returns the alias without the namespace `prefix` if a simple name remains, otherwise the whole alias."""
    rest = alias.removeprefix(prefix)
    return alias if "." in rest else rest


def _pretty(value: Any, depth: int) -> str:
    """Returns the value as JSON in Jackson's default layout: each member of an object has its own line, arrays stay on
    one line."""
    if isinstance(value, dict):
        if not value:
            return "{ }"
        indent = "  " * (depth + 1)
        members = ",\n".join(
            f"{indent}{json.dumps(key, ensure_ascii=False)} : {_pretty(item, depth + 1)}" for key, item in value.items()
        )
        return f"{{\n{members}\n{'  ' * depth}}}"
    if isinstance(value, list):
        return f"[ {', '.join(_pretty(item, depth) for item in value)} ]" if value else "[ ]"
    return json.dumps(value, ensure_ascii=False)
