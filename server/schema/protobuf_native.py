"""Protobuf native schemas: JSON that holds a FileDescriptorSet and names the root message.

    {"fileDescriptorSet": base64, "rootMessageTypeName": "pkg.Message", "rootFileDescriptorName": "file.proto"}

Source: ProtobufNativeSchemaUtils, ProtobufNativeSchemaData.
"""

import json
from base64 import b64decode

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from magnetar.server.schema.schema_types import InvalidSchema


def root_message_name(data: bytes) -> str:
    """Returns the full name of the root message. Raises InvalidSchema when the definition is malformed, or when the set
    lacks a type that the message needs."""
    return str(_root_message(data).full_name)


def message_class(data: bytes) -> type[Message]:
    """Returns the class of the root message. Raises InvalidSchema as `root_message_name` does."""
    return GetMessageClass(_root_message(data))


def _root_message(data: bytes) -> Descriptor:
    try:
        tree = json.loads(data)
        root, root_file = tree["rootMessageTypeName"], tree["rootFileDescriptorName"]
        files = {each.name: each for each in FileDescriptorSet.FromString(b64decode(tree["fileDescriptorSet"])).file}
        pool = DescriptorPool()
        _add(pool, root_file, files, set())
        return pool.FindMessageTypeByName(root)
    except (ValueError, KeyError, TypeError, DecodeError, RecursionError) as error:
        raise InvalidSchema("deserialize ProtobufNative Schema failed") from error


def _add(pool: DescriptorPool, name: str, files: dict[str, FileDescriptorProto], added: set[str]) -> None:
    """Adds a file to the pool, after the files that this file imports. Raises KeyError for a file that is missing in
    the set."""
    if name in added:
        return
    added.add(name)
    file = files[name]
    for dependency in file.dependency:
        _add(pool, dependency, files, added)
    pool.Add(file)
