"""Check documents against their collection's validator before they are stored."""

from collections.abc import Mapping
from typing import Any

from tailrace.bson.documents import decode
from tailrace.bson.shell_notation import shell
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.mongod.server.writes.validation.validation_details import validation_details
from tailrace.mongod.store.catalog import Collection
from tailrace.query.match import compile_match


class Validator:
    """The compiled rules of one collection."""

    def __init__(
        self, collection: Collection, rules: dict[str, Any], log: Logbook, variables: Mapping[str, Any]
    ) -> None:
        options = collection.options
        self._ns = collection.ns
        self._rules = rules
        self._collation = collection.collation
        self._variables = variables
        self._matches = compile_match(rules, variables=variables, collation=self._collation)
        self._is_moderate = options.get("validationLevel") == "moderate"
        self._action = options.get("validationAction", "error")
        self._log = log

    @classmethod
    def of(cls, collection: Collection, log: Logbook, variables: Mapping[str, Any]) -> "Validator | None":
        """The validator of a collection; None if it has none, or if it is off.

        ``variables`` are those that its expressions can use with `$$`.
        """
        rules = collection.options.get("validator")
        # The validator of a time series is for its buckets, which are made here.
        if not rules or collection.is_timeseries or collection.options.get("validationLevel") == "off":
            return None
        return cls(collection, rules, log, variables)

    def check_insert(self, document: bytes) -> None:
        """Refuse a new document that violates the rules."""
        self._check(decode(document))

    def check_update(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        """Refuse a change that violates the rules, except, at the moderate level, if `before` does too."""
        if self._matches(after) or (self._is_moderate and not self._matches(before)):
            return
        self._check(after)

    def _check(self, document: dict[str, Any]) -> None:
        if self._matches(document):
            return
        details = {
            "failingDocumentId": document.get("_id"),
            "details": validation_details(
                self._rules, document, variables=self._variables, collation=self._collation
            ),
        }
        if self._action != "error":
            self._log.warning(
                "STORAGE",
                "Document would fail validation",
                namespace=self._ns,
                errInfo=shell(details),
            )
        if self._action == "warn":
            return
        error = CommandError(ErrorCode.DocumentValidationFailure, "Document failed validation")
        error.details = {"errInfo": details}
        raise error
