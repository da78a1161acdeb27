"""Keeps `runtime/adapters/google_messages.binpb` equal to what the locked client libraries say.

    python checks/descriptors.py [--write]

The services speak Google's protocol with the messages in that file and without Google's client libraries, whose import
takes longer than the rest of a start. Without `--write` a stale file is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from google.cloud.firestore_v1.types import firestore
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.pubsub_v1 import types as pubsub
from google.rpc import error_details_pb2, status_pb2

FILE: Final = Path(__file__).resolve().parents[1] / "runtime" / "adapters" / "google_messages.binpb"

ROOTS: Final[tuple[Any, ...]] = (
    firestore.CommitRequest.pb(),
    firestore.CommitResponse.pb(),
    firestore.BatchWriteRequest.pb(),
    firestore.BatchWriteResponse.pb(),
    firestore.BatchGetDocumentsRequest.pb(),
    firestore.BatchGetDocumentsResponse.pb(),
    firestore.RunQueryRequest.pb(),
    firestore.RunQueryResponse.pb(),
    pubsub.PublishRequest.pb(),
    pubsub.PublishResponse.pb(),
    status_pb2.Status,
    error_details_pb2.RetryInfo,
)
"""What the adapters send, receive and find in an error; everything else is left out unless one of these holds it."""

Type = Descriptor | EnumDescriptor


def descriptors() -> bytes:
    """A FileDescriptorSet of ROOTS and what they are made of, each file after those it needs."""
    kept = _reached([root.DESCRIPTOR for root in ROOTS])
    files: dict[str, FileDescriptorProto] = {}
    for found in kept.values():
        _add(found.file, set(kept), files)
    return FileDescriptorSet(file=files.values()).SerializeToString(deterministic=True)


def _reached(start: list[Descriptor]) -> dict[str, Type]:
    kept: dict[str, Type] = {}
    waiting: list[Type] = list(start)
    while waiting:
        found = _outermost(waiting.pop())
        if found.full_name not in kept:
            kept[found.full_name] = found
            if isinstance(found, Descriptor):
                waiting.extend(_parts(found))
    return dict(sorted(kept.items()))


def _outermost(found: Type) -> Type:
    while found.containing_type is not None:
        found = found.containing_type
    return found


def _parts(message: Descriptor) -> Iterator[Type]:
    for field in message.fields:
        part = field.message_type or field.enum_type
        if part is not None:
            yield part
    for nested in message.nested_types:
        yield from _parts(nested)


def _add(source: FileDescriptor, kept: set[str], files: dict[str, FileDescriptorProto]) -> None:
    if source.name in files:
        return
    file = FileDescriptorProto()
    source.CopyToProto(file)
    declared: tuple[Any, ...] = (file.message_type, file.enum_type)
    for rows in declared:
        for row in [row for row in rows if f"{file.package}.{row.name}" not in kept]:
            rows.remove(row)
    del file.service[:], file.dependency[:], file.public_dependency[:], file.weak_dependency[:]
    # The libraries' own order is that of a set, another one in each process.
    for needed in sorted(source.dependencies, key=lambda file: file.name):
        if any(_file_of(name, needed) for name in kept):
            _add(needed, kept, files)
            file.dependency.append(needed.name)
    files[source.name] = file


def _file_of(name: str, file: FileDescriptor) -> bool:
    package, _, short = name.rpartition(".")
    return package == file.package and (short in file.message_types_by_name or short in file.enum_types_by_name)


def main(arguments: list[str]) -> int:
    """Writes or compares; 0 where the file is right."""
    wanted = descriptors()
    if "--write" in arguments:
        FILE.write_bytes(wanted)
    elif not FILE.exists() or FILE.read_bytes() != wanted:
        sys.stdout.write(f"{FILE.name} is not what the locked packages say: python checks/descriptors.py --write\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
