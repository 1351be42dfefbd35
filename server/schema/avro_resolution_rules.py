"""Decides whether data that was written with one Avro schema can be read with another Avro schema, by the rules of
Java's SchemaValidator.

No Python library makes the same decisions as Apache's broker. `avro.compatibility` follows Java's SchemaCompatibility,
which refuses a record of another name and an enum that lost a symbol. Apache's broker uses Java's SchemaValidator
instead, which looks for errors in the resolving grammar and accepts such records and enums. Sources:
org.apache.avro.Resolver and io.parsing.Symbol.hasErrors, 1.11. Verdicts of Java's SchemaValidator are in
`tests/vectors/avro_resolution.json`.
"""

from typing import Any

from magnetar.server.schema.avro_schema import DEPTH_MAX, AvroField, AvroKind, AvroSchema, NoDefault, same_schema

_PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


STEPS_MAX = 300_000
"""How many steps one check may take, however many versions the check compares. This number of steps takes about half a
second. The bound is needed because clients choose the schemas: when the defaults of records within records are checked,
each level doubles the steps."""

_SYMBOLS_A_STEP = 64
"""How many symbols of an enum are searched in one step."""


class TooCostly(Exception):
    """Raised when a check would take more than STEPS_MAX steps."""


class StepBudget:
    """Counts how many steps a check may still take."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = STEPS_MAX

    def take(self, count: int = 1) -> None:
        """Takes steps from the budget. Raises TooCostly when the budget has too few steps left."""
        self._left -= count
        if self._left < 0:
            raise TooCostly(f"they take more than {STEPS_MAX} steps to compare, the most that one check may take")


def can_read(writer: AvroSchema, reader: AvroSchema, steps: StepBudget | None = None) -> bool:
    """Whether all data written with `writer` can be read with `reader`. The comparison takes its steps from `steps`;
    without `steps` the comparison has a budget of its own. Raises TooCostly when the budget is spent."""
    resolution = _Resolution(StepBudget() if steps is None else steps)
    if not same_schema(writer, reader):
        resolution.collect_aliases(reader, set())
    return resolution.resolves(writer, reader)


class _Resolution:
    """Decides one call of `can_read`. When a pair of records that is being compared occurs again inside these records,
    the inner pair counts as readable, so that the recursion ends."""

    def __init__(self, steps: StepBudget) -> None:
        self.steps = steps
        self._seen: dict[tuple[int, int], bool] = {}
        self._type_aliases: dict[str, str] = {}
        self._field_aliases: dict[str, dict[str, str]] = {}

    def resolves(self, writer: AvroSchema, reader: AvroSchema) -> bool:
        self.steps.take()
        if writer.kind is AvroKind.UNION:
            if _equivalent(writer, reader, {}, self.steps):
                pairs = zip(writer.branches, reader.branches, strict=True)
                return all(self.resolves(branch, counterpart) for branch, counterpart in pairs)
            return all(self.resolves(branch, reader) for branch in writer.branches)
        if reader.kind is AvroKind.UNION:
            branch = self._branch_for(writer, reader)
            return branch is not None and self.resolves(writer, branch)
        if writer.is_record and reader.is_record:
            return self._record_resolves(writer, reader)
        if writer.kind is not reader.kind:
            return False
        if writer.kind is AvroKind.PRIMITIVE:
            return writer.name == reader.name or reader.name in _PROMOTIONS.get(writer.name, ())
        if writer.inner is not None and reader.inner is not None:
            return self.resolves(writer.inner, reader.inner)
        if self._name_of(writer) != reader.full_name:
            return False
        # An enum's symbols do not count: a symbol that the reader lacks is an error only when data holds that symbol.
        return writer.kind is AvroKind.ENUM or writer.size == reader.size

    def _record_resolves(self, writer: AvroSchema, reader: AvroSchema) -> bool:
        """Whether the record `reader` can read data of the record `writer`. Compares the fields; the names of the
        records do not count."""
        pair = id(writer), id(reader)
        known = self._seen.get(pair)
        if known is None:
            self._seen[pair] = True
            known = self._seen[pair] = self._fields_resolve(writer, reader)
        return known

    def _fields_resolve(self, writer: AvroSchema, reader: AvroSchema) -> bool:
        written = self._written_fields(writer)
        for each in reader.fields:
            counterpart = written.get(each.name)
            if counterpart is None:
                if each.default is NoDefault.NO_DEFAULT or not _is_valid_default(each.schema, each.default, self.steps):
                    return False
            elif not self.resolves(counterpart.schema, each.schema):
                return False
        return True

    def _branch_for(self, writer: AvroSchema, reader: AvroSchema) -> AvroSchema | None:
        """Returns the branch of the reader's union that reads data written with `writer`, or None when no branch can.
        `writer` must not be a union. Prefers a branch of the writer's type and name, then a record whose fields match
        the writer's, then a type to which the writer's type can be promoted."""
        of_same_structure: AvroSchema | None = None
        name = self._name_of(writer)
        self.steps.take(len(reader.branches))
        for branch in reader.branches:
            if branch.kind is not writer.kind or (branch.kind is AvroKind.PRIMITIVE and branch.name != writer.name):
                continue
            if not writer.is_named or name == branch.full_name:
                return branch
            same_name = name.rpartition(".")[2] == branch.name
            if writer.is_record and (of_same_structure is None or same_name) and self._matches(writer, branch):
                of_same_structure = branch
        if of_same_structure is not None:
            return of_same_structure
        promotions = _PROMOTIONS.get(writer.name, ()) if writer.kind is AvroKind.PRIMITIVE else ()
        for branch in reader.branches:
            if branch.kind is AvroKind.PRIMITIVE and branch.name in promotions:
                return branch
        return None

    def _matches(self, writer: AvroSchema, branch: AvroSchema) -> bool:
        """Whether the record `branch` of the reader's union can read data of a record `writer` with another name.
        Compares only the fields of the two records, and nothing at deeper levels."""
        return _Shallow(self).fields_match(writer, branch)

    # --- aliases -----------------------------------------------------------------------------------------------------

    def collect_aliases(self, reader: AvroSchema, seen: set[int]) -> None:
        """Notes all aliases in the reader's schema. The writer's names are translated by these aliases."""
        if id(reader) in seen:
            return
        seen.add(id(reader))
        self.steps.take()
        if reader.is_named:
            self._type_aliases.update(dict.fromkeys(reader.aliases, reader.full_name))
        for each in reader.fields:
            if each.aliases:
                of_record = self._field_aliases.setdefault(reader.full_name, {})
                of_record.update(dict.fromkeys(each.aliases, each.name))
            self.collect_aliases(each.schema, seen)
        for inner in (reader.inner, *reader.branches):
            if inner is not None:
                self.collect_aliases(inner, seen)

    def _name_of(self, writer: AvroSchema) -> str:
        """Returns the full name that the reader uses for a type of the writer."""
        return self._type_aliases.get(writer.full_name, writer.full_name)

    def _written_fields(self, writer: AvroSchema) -> dict[str, AvroField]:
        """Returns name -> field, for the writer's fields under the names that the reader uses for them."""
        self.steps.take(len(writer.fields))
        aliases = self._field_aliases.get(self._name_of(writer), {})
        return {aliases.get(each.name, each.name): each for each in writer.fields}


class _Shallow:
    """Compares two records in the way of Java's Resolver.ReaderUnion.hasMatchError: the records do not match when one
    of the reader's fields cannot be resolved. Faults at deeper levels, for instance in the items of a field's array, do
    not count."""

    def __init__(self, resolution: _Resolution) -> None:
        self._resolution = resolution

    def fields_match(self, writer: AvroSchema, branch: AvroSchema) -> bool:
        written = self._resolution._written_fields(writer)
        self._resolution.steps.take(len(branch.fields))
        for each in branch.fields:
            counterpart = written.get(each.name)
            if counterpart is None:
                if each.default is NoDefault.NO_DEFAULT:
                    return False
            elif not self._may_resolve(counterpart.schema, each.schema):
                return False
        return True

    def _may_resolve(self, writer: AvroSchema, reader: AvroSchema) -> bool:
        if writer.kind is AvroKind.UNION or (writer.inner is not None and writer.kind is reader.kind):
            return True
        if reader.kind is AvroKind.UNION:
            return self._resolution._branch_for(writer, reader) is not None
        return self._resolution.resolves(writer, reader)


def _equivalent(one: AvroSchema, other: AvroSchema, seen: dict[tuple[int, int], bool], steps: StepBudget) -> bool:
    """Whether two unions, or types within them, have the same shape, so that their branches can be compared in pairs.
    Source: Resolver.WriterUnion.unionEquiv."""
    steps.take(1 + len(one.fields))
    if one.kind is not other.kind or (one.is_named and one.name != other.name):
        return False
    match one.kind:
        case AvroKind.PRIMITIVE:
            return one.name == other.name
        case AvroKind.ENUM:
            return one.symbols == other.symbols
        case AvroKind.FIXED:
            return one.size == other.size
        case AvroKind.ARRAY | AvroKind.MAP:
            assert one.inner is not None
            assert other.inner is not None
            return _equivalent(one.inner, other.inner, seen, steps)
        case AvroKind.UNION:
            return len(one.branches) == len(other.branches) and all(
                _equivalent(mine, its, seen, steps) for mine, its in zip(one.branches, other.branches, strict=True)
            )
    pair = id(one), id(other)
    if pair not in seen:
        seen[pair] = True
        seen[pair] = [each.name for each in one.fields] == [each.name for each in other.fields] and all(
            _equivalent(mine.schema, its.schema, seen, steps)
            for mine, its in zip(one.fields, other.fields, strict=True)
        )
    return seen[pair]


def _is_valid_default(schema: AvroSchema, value: Any, steps: StepBudget, depth: int = 0) -> bool:
    """Whether a JSON value can be the default of a field of that type. The default of a union may be a value of any
    branch, because the Python client generates `["null", "string"]` with a default of "". (For such a default Java's
    validator throws AvroTypeException, which says neither yes nor no.) A default that never ends is refused: the
    default of a record that leaves out a field whose own default is again such a record."""
    if depth > DEPTH_MAX:
        return False
    depth += 1
    steps.take()
    match schema.kind:
        case AvroKind.UNION:
            return any(_is_valid_default(branch, value, steps, depth) for branch in schema.branches)
        case AvroKind.ENUM:
            steps.take(len(schema.symbols) // _SYMBOLS_A_STEP)
            return value in schema.symbols
        case AvroKind.FIXED:
            return isinstance(value, str) and len(value) == schema.size
        case AvroKind.ARRAY:
            assert schema.inner is not None
            inner = schema.inner
            return isinstance(value, list) and all(_is_valid_default(inner, item, steps, depth) for item in value)
        case AvroKind.MAP:
            assert schema.inner is not None
            inner = schema.inner
            return isinstance(value, dict) and all(
                _is_valid_default(inner, item, steps, depth) for item in value.values()
            )
        case AvroKind.PRIMITIVE:
            return _is_valid_primitive(schema.name, value)
    return isinstance(value, dict) and all(
        _is_valid_default(each.schema, value.get(each.name, each.default), steps, depth) for each in schema.fields
    )


def _is_valid_primitive(name: str, value: Any) -> bool:
    match name:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "string" | "bytes":
            return isinstance(value, str)
    return isinstance(value, int | float) and not isinstance(value, bool)
