"""Google's protocol messages, without Google's client libraries.

The messages come from `google_messages.binpb`, a descriptor set that checks/descriptors.py takes out of the locked
client libraries. They live in a pool of their own, so that they and the libraries can be loaded side by side.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

# Classes made at run time have no types.
Message = Any
MessageClass = Any

_FILE: Final = Path(__file__).with_name("google_messages.binpb")


def _read() -> DescriptorPool:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(_FILE.read_bytes()).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


_POOL: Final = _read()


def message_class(name: str) -> MessageClass:
    """The class of a message.

    Args:
        name: its full name, such as `google.firestore.v1.CommitRequest`.

    Raises:
        KeyError: it is not in the descriptor set.
    """
    return GetMessageClass(_POOL.FindMessageTypeByName(name))
