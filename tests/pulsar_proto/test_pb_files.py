"""The committed *_pb2 modules say what the .proto files say."""

from pathlib import Path

import pytest
from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from pulsar_proto.pb import (
    bookkeeper_pb2,
    generate,
    managed_ledger_pb2,
    pending_ack_pb2,
    pulsar_api_pb2,
    transaction_log_pb2,
    underreplication_pb2,
)

MODULES = [
    bookkeeper_pb2,
    managed_ledger_pb2,
    pending_ack_pb2,
    pulsar_api_pb2,
    transaction_log_pb2,
    underreplication_pb2,
]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FileDescriptorProto]:
    out = tmp_path_factory.mktemp("pb") / "descriptors"
    generate.compile_descriptors(out)
    return {file.name: file for file in FileDescriptorSet.FromString(out.read_bytes()).file}


def test_every_proto_file_has_its_generated_module(compiled: dict[str, FileDescriptorProto]) -> None:
    assert sorted(compiled) == sorted(module.DESCRIPTOR.name for module in MODULES)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_generated_module_is_current(module: object, compiled: dict[str, FileDescriptorProto]) -> None:
    descriptor = module.DESCRIPTOR  # type: ignore[attr-defined]
    generated = FileDescriptorProto()
    descriptor.CopyToProto(generated)
    expected = compiled[descriptor.name]
    for file in (generated, expected):
        file.ClearField("source_code_info")
        _drop_json_names(file)
    assert generated == expected, "run `python -m pulsar_proto.pb.generate`"


def _drop_json_names(file: FileDescriptorProto) -> None:
    """Clears the fields that protoc fills in a descriptor set, but not in a module."""
    pending = list(file.message_type)
    while pending:
        message = pending.pop()
        pending += message.nested_type
        for field in message.field:
            field.ClearField("json_name")


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_type_stub_names_every_field(module: object) -> None:
    stub = Path(str(module.__file__)).with_suffix(".pyi").read_text()  # type: ignore[attr-defined]
    missing = [
        f"{message.name}.{field.name}"
        for message in module.DESCRIPTOR.message_types_by_name.values()  # type: ignore[attr-defined]
        for field in message.fields
        if f"{field.name.upper()}_FIELD_NUMBER" not in stub
    ]
    assert not missing


def test_a_commands_type_is_the_number_of_its_field() -> None:
    base = pulsar_api_pb2.BaseCommand.DESCRIPTOR
    types: EnumDescriptor = base.enum_types_by_name["Type"]
    for field in base.fields[1:]:
        assert field.number in types.values_by_number, field.name
        assert field.message_type is not None, field.name
        assert field.message_type.name.startswith("Command")


def test_packages_do_not_clash_with_other_libraries() -> None:
    """The official client's descriptors live in package pulsar.proto of the same process."""
    assert {module.DESCRIPTOR.package.split(".")[0] for module in MODULES} == {"magnetar"}
