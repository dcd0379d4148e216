"""The labels of errors."""

import pytest

from tailrace.mongod.server.dispatch.error_labels import RETRIABLE_CODES, Situation, labels_of

RESUMABLE = ["ResumableChangeStreamError"]
NOT_RESUMABLE = ["NonResumableChangeStreamError"]
TRANSIENT = ["TransientTransactionError"]
RETRYABLE = ["RetryableWriteError"]

INTERNAL_TRANSACTION_NOT_SUPPORTED = 358
STREAM = Situation(is_change_stream=True)
WRITE = Situation(is_retryable_write=True)
STATEMENT = Situation(in_transaction=True)
COMMIT = Situation(in_transaction=True, ends_transaction=True, is_retryable_write=True)


@pytest.mark.parametrize("code", sorted(RETRIABLE_CODES))
def test_retryable_errors(code: int) -> None:
    assert labels_of(code, STREAM) == RESUMABLE
    assert labels_of(code, WRITE) == RETRYABLE
    assert labels_of(code, STATEMENT) == (TRANSIENT if code != INTERNAL_TRANSACTION_NOT_SUPPORTED else [])
    assert labels_of(code, COMMIT) == RETRYABLE
    assert labels_of(code, Situation()) == []


@pytest.mark.parametrize("code", [150, 13388, 234, 133, 175])
def test_errors_that_only_streams_resume_after(code: int) -> None:
    assert labels_of(code, STREAM) == RESUMABLE
    assert labels_of(code, WRITE) == []


@pytest.mark.parametrize("code", [280, 286, 464])
def test_errors_that_end_a_stream(code: int) -> None:
    for situation in (STREAM, WRITE, Situation()):
        assert labels_of(code, situation) == NOT_RESUMABLE


@pytest.mark.parametrize("code", [2, 9, 11000, 43, 50, 136, 10334, 40415])
def test_errors_without_a_label(code: int) -> None:
    for situation in (STREAM, WRITE, STATEMENT, COMMIT, Situation()):
        assert labels_of(code, situation) == []


@pytest.mark.parametrize("code", [24, 63, 112, 150, 239, 246, 250, 251, 267, 272, 321, 325, 364])
def test_transient_transaction_errors(code: int) -> None:
    assert labels_of(code, STATEMENT) == TRANSIENT
    assert labels_of(code, COMMIT) == TRANSIENT
    assert labels_of(code, Situation()) == []


def test_a_commit_of_a_transaction_that_does_not_exist() -> None:
    assert labels_of(251, COMMIT) == TRANSIENT
    assert labels_of(251, COMMIT, write_concern_code=64) == []


def test_a_write_concern_error() -> None:
    assert labels_of(None, WRITE, write_concern_code=91) == RETRYABLE
    assert labels_of(None, COMMIT, write_concern_code=91) == RETRYABLE
    assert labels_of(None, WRITE, write_concern_code=100) == []
    assert labels_of(11602, STREAM, write_concern_code=64) == []


def test_a_write_that_did_nothing_has_a_label() -> None:
    refused = Situation(is_retryable_write=True, before_body=True)
    assert labels_of(10107, refused) == ["RetryableWriteError", "NoWritesPerformed"]


def test_labels_of_an_error_are_preserved() -> None:
    assert labels_of(112, Situation(), own=TRANSIENT) == TRANSIENT
    assert labels_of(112, STATEMENT, own=TRANSIENT) == TRANSIENT
    assert labels_of(11602, STREAM, own=["Other"]) == ["Other"]
