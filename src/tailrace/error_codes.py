"""MongoDB's error codes that Tailrace raises or recognises, by their symbolic names.

A code without a symbolic name is shown as ``Location<code>``, as the server does; such codes are used as
plain numbers next to the check that raises them, because the number is all there is to know about them.
"""

from enum import IntEnum


class ErrorCode(IntEnum):
    """Codes that have a symbolic name on the wire."""

    InternalError = 1
    BadValue = 2
    NoSuchKey = 4
    HostUnreachable = 6
    HostNotFound = 7
    FailedToParse = 9
    Unauthorized = 13
    TypeMismatch = 14
    Overflow = 15
    IllegalOperation = 20
    EmptyArrayOperation = 21
    InvalidBSON = 22
    PathNotViable = 28
    CannotBackfillArray = 34
    ConflictingUpdateOperators = 40
    CursorNotFound = 43
    NoMatchingDocument = 47
    MaxTimeMSExpired = 50
    DollarPrefixedFieldName = 52
    InvalidIdField = 53
    NotSingleValueField = 54
    InvalidDBRef = 55
    EmptyFieldName = 56
    DottedFieldName = 57
    CommandNotFound = 59
    ImmutableField = 66
    InvalidOptions = 72
    InvalidNamespace = 73
    NetworkTimeout = 89
    ShutdownInProgress = 91
    OperationFailed = 96
    WriteConflict = 112
    CommandNotSupported = 115
    DocumentValidationFailure = 121
    FailedToSatisfyReadPreference = 133
    ReadConcernMajorityNotAvailableYet = 134
    CappedPositionLost = 136
    CursorInUse = 143
    StaleEpoch = 150
    IncompatibleCollationVersion = 161
    CommandNotSupportedOnView = 166
    OptionNotSupportedOnView = 167
    InvalidPipelineOperator = 168
    QueryPlanKilled = 175
    PrimarySteppedDown = 189
    InvalidUUID = 207
    IllegalOpMsgFlag = 223
    QueryFeatureNotAllowed = 224
    TooManyDocumentSequences = 233
    RetryChangeStream = 234
    InvalidResumeToken = 260
    ExceededTimeLimit = 262
    OperationNotSupportedInTransaction = 263
    ChangeStreamFatalError = 280
    ChangeStreamHistoryLost = 286
    ChecksumMismatch = 288
    APIStrictError = 323
    OplogQueryMinTsMissing = 326
    UnsupportedOpQueryCommand = 352
    ConversionFailure = 241
    ShardRemovedError = 464
    SocketException = 9001
    NotWritablePrimary = 10107
    BSONObjectTooLarge = 10334
    InterruptedAtShutdown = 11600
    InterruptedDueToReplStateChange = 11602
    StaleConfig = 13388
    NotPrimaryNoSecondaryOk = 13435
    NotPrimaryOrSecondary = 13436
    IDLDuplicateField = 40413
    IDLFailedToParse = 40414
    IDLUnknownField = 40415


_NAMES = {int(code): code.name for code in ErrorCode}


def code_name(code: int) -> str:
    """The name a server reports for a code.

    >>> code_name(286), code_name(40602)
    ('ChangeStreamHistoryLost', 'Location40602')
    """
    return _NAMES.get(code, f"Location{code}")
