"""Protobuf native schemas: a FileDescriptorSet and which message of it is meant, in JSON.

    {"fileDescriptorSet": base64, "rootMessageTypeName": "pkg.Message", "rootFileDescriptorName": "file.proto"}

Source: ProtobufNativeSchemaUtils, ProtobufNativeSchemaData.
"""

import json
from base64 import b64decode

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from magnetar.server.schema.schema_types import InvalidSchema


def root_message_name(data: bytes) -> str:
    """The full name of the root message, which is there with all that it needs. Raises InvalidSchema."""
    try:
        tree = json.loads(data)
        root, root_file = tree["rootMessageTypeName"], tree["rootFileDescriptorName"]
        files = {each.name: each for each in FileDescriptorSet.FromString(b64decode(tree["fileDescriptorSet"])).file}
        pool = DescriptorPool()
        _add(pool, root_file, files, set())
        message = pool.FindMessageTypeByName(root)
    except (ValueError, KeyError, TypeError, DecodeError, RecursionError) as error:
        raise InvalidSchema("deserialize ProtobufNative Schema failed") from error
    return str(message.full_name)


def _add(pool: DescriptorPool, name: str, files: dict[str, FileDescriptorProto], added: set[str]) -> None:
    """A file after what it imports. Raises KeyError for one that the set does not hold."""
    if name in added:
        return
    added.add(name)
    file = files[name]
    for dependency in file.dependency:
        _add(pool, dependency, files, added)
    pool.Add(file)
