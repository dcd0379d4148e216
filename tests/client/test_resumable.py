"""Resumable errors, and how PyMongo's errors are classified."""

import pytest
from pymongo import errors
from pymongo.helpers_shared import _NOT_PRIMARY_CODES

from tailrace.client.driver import failure_of
from tailrace.client.resumable import (
    RESUMABLE_CODES,
    RESUMABLE_LABEL,
    STATE_CHANGE_CODES,
    CommandFailure,
    is_resumable,
)

OLD, NEW = 8, 9


def answered(code: int, wire: int, *labels: str) -> CommandFailure:
    return CommandFailure(from_server=True, code=code, labels=frozenset(labels), wire_version=wire)


def test_a_command_without_reply_is_resumable() -> None:
    assert is_resumable(CommandFailure(from_server=False, wire_version=OLD))
    assert is_resumable(CommandFailure(from_server=False, wire_version=NEW))


@pytest.mark.parametrize("wire", [OLD, NEW])
def test_a_cursor_that_is_not_found_is_resumable_in_every_version(wire: int) -> None:
    assert is_resumable(answered(43, wire))


def test_from_4_4_on_the_label_decides() -> None:
    assert is_resumable(answered(280, NEW, RESUMABLE_LABEL))
    assert not any(is_resumable(answered(code, NEW)) for code in RESUMABLE_CODES - STATE_CHANGE_CODES)


@pytest.mark.parametrize("wire", [OLD, NEW])
def test_a_member_that_changes_its_state_is_resumable_without_label(wire: int) -> None:
    """A real server that recovers answers a getMore before it knows whether its cursor is a stream."""
    assert all(is_resumable(answered(code, wire)) for code in STATE_CHANGE_CODES)
    assert {*_NOT_PRIMARY_CODES} - {10058} == STATE_CHANGE_CODES


def test_before_4_4_the_code_decides_alone() -> None:
    assert all(is_resumable(answered(code, OLD)) for code in RESUMABLE_CODES)
    assert not is_resumable(answered(280, OLD, RESUMABLE_LABEL))


def test_the_list_of_codes_is_that_of_the_specification() -> None:
    assert sorted(RESUMABLE_CODES) == [
        6, 7, 63, 89, 91, 133, 150, 189, 234, 262, 9001, 10107, 11600, 11602, 13388, 13435, 13436
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.AutoReconnect("gone"), True),
        (errors.NetworkTimeout("slow"), True),
        (errors.ServerSelectionTimeoutError("no server"), True),
        (errors.ConnectionFailure("no"), True),
        (errors.ProtocolError("garbage"), True),
        (errors.CursorNotFound("no", 43, {"code": 43}), True),
        (errors.OperationFailure("no", 6, {"code": 6, "errorLabels": [RESUMABLE_LABEL]}), True),
        (errors.OperationFailure("no", 6, {"code": 6}), False),
        (errors.NotPrimaryError("no", {"code": 10107, "errorLabels": [RESUMABLE_LABEL]}), True),
        (errors.NotPrimaryError("no", {"code": 10107}), True),
        (errors.InvalidOperation("closed"), False),
        (ValueError("cannot be decoded"), False),
    ],
)
def test_errors_of_the_driver_and_of_the_server_are_distinguished(error: Exception, expected: bool) -> None:
    assert is_resumable(failure_of(error, NEW)) is expected


def test_the_wire_version_is_that_of_the_connection_which_failed() -> None:
    error = errors.OperationFailure("no", 6, {"code": 6})
    assert is_resumable(failure_of(error, OLD))
    assert not is_resumable(failure_of(error, NEW))
