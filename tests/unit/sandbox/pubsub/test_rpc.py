"""What gRPC says about each kind of error."""

from __future__ import annotations

import grpc
import pytest

from runtime.contract.errors import HoldfastError
from sandbox.pubsub.access import PermissionMissing, Unauthenticated
from sandbox.pubsub.journal import JournalFailed
from sandbox.pubsub.message import InvalidMessage
from sandbox.pubsub.rpc import Refused, status_of
from sandbox.pubsub.state import NotDeclared


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Unauthenticated("x"), grpc.StatusCode.UNAUTHENTICATED),
        (PermissionMissing("x"), grpc.StatusCode.PERMISSION_DENIED),
        (NotDeclared("x"), grpc.StatusCode.NOT_FOUND),
        (InvalidMessage("x"), grpc.StatusCode.INVALID_ARGUMENT),
        (JournalFailed("x"), grpc.StatusCode.UNAVAILABLE),
        (Refused("x", grpc.StatusCode.ABORTED), grpc.StatusCode.ABORTED),
        (HoldfastError("x"), grpc.StatusCode.INTERNAL),
    ],
)
def test_every_error_has_the_status_that_google_would_give(error: HoldfastError, status: grpc.StatusCode) -> None:
    assert status_of(error) is status
