"""MongoDB's error codes that Tailrace raises or recognises, by their symbolic names.

A code without a symbolic name is shown as ``Location<code>``, as the server does; such codes are used as
plain numbers next to the check that raises them, because they have nothing but the number.
"""

from enum import IntEnum

from tailrace.error_code_names import OTHER_NAMES


class ErrorCode(IntEnum):
    """Codes that have a symbolic name on the wire."""

    InternalError = 1
    BadValue = 2
    NoSuchKey = 4
    GraphContainsCycle = 5
    HostUnreachable = 6
    HostNotFound = 7
    UnknownError = 8
    FailedToParse = 9
    UserNotFound = 11
    UnsupportedFormat = 12
    Unauthorized = 13
    TypeMismatch = 14
    Overflow = 15
    InvalidLength = 16
    ProtocolError = 17
    AuthenticationFailed = 18
    CannotReuseObject = 19
    IllegalOperation = 20
    EmptyArrayOperation = 21
    InvalidBSON = 22
    AlreadyInitialized = 23
    LockTimeout = 24
    NamespaceNotFound = 26
    IndexNotFound = 27
    PathNotViable = 28
    NonExistentPath = 29
    RoleNotFound = 31
    RolesNotRelated = 32
    CannotBackfillArray = 34
    FileNotOpen = 38
    ConflictingUpdateOperators = 40
    CursorNotFound = 43
    NoMatchingDocument = 47
    NamespaceExists = 48
    InvalidRoleModification = 49
    MaxTimeMSExpired = 50
    DollarPrefixedFieldName = 52
    InvalidIdField = 53
    NotSingleValueField = 54
    InvalidDBRef = 55
    EmptyFieldName = 56
    DottedFieldName = 57
    CommandNotFound = 59
    ShardKeyNotFound = 61
    OBSOLETE_StaleShardVersion = 63
    WriteConcernFailed = 64
    ImmutableField = 66
    CannotCreateIndex = 67
    IndexAlreadyExists = 68
    ShardNotFound = 70
    InvalidOptions = 72
    InvalidNamespace = 73
    NodeNotFound = 74
    NoReplicationEnabled = 76
    UnknownReplWriteConcern = 79
    RoleDataInconsistent = 80
    IndexOptionsConflict = 85
    IndexKeySpecsConflict = 86
    NetworkTimeout = 89
    ShutdownInProgress = 91
    InvalidReplicaSetConfig = 93
    NotYetInitialized = 94
    NotSecondary = 95
    OperationFailed = 96
    UnsatisfiableWriteConcern = 100
    OutdatedClient = 101
    NotExactValueField = 111
    WriteConflict = 112
    CommandNotSupported = 115
    ConflictingOperationInProgress = 117
    NamespaceNotSharded = 118
    DocumentValidationFailure = 121
    NotAReplicaSet = 123
    CommandFailed = 125
    FailedToSatisfyReadPreference = 133
    ReadConcernMajorityNotAvailableYet = 134
    CappedPositionLost = 136
    InvalidSSLConfiguration = 140
    CursorInUse = 143
    ExceededMemoryLimit = 146
    StaleEpoch = 150
    MaxStalenessOutOfRange = 160
    IncompatibleCollationVersion = 161
    ZoneStillInUse = 163
    ViewDepthLimitExceeded = 165
    CommandNotSupportedOnView = 166
    OptionNotSupportedOnView = 167
    InvalidPipelineOperator = 168
    CommandOnShardedViewNotSupportedOnMongod = 169
    CannotIndexParallelArrays = 171
    QueryPlanKilled = 175
    ZoneNotFound = 177
    RangeOverlapConflict = 178
    AmbiguousIndexKeyPattern = 181
    InvalidViewDefinition = 182
    ClientMetadataMissingField = 183
    ClientMetadataAppNameTooLarge = 184
    ClientMetadataDocumentTooLarge = 185
    ClientMetadataCannotBeMutated = 186
    PrimarySteppedDown = 189
    InvalidIndexSpecificationOption = 197
    CannotBuildIndexKeys = 201
    ClusterTimeFailsRateLimiter = 205
    NoSuchSession = 206
    InvalidUUID = 207
    StaleClusterTime = 209
    DatabaseDropPending = 215
    ElectionInProgress = 216
    IncompleteTransactionHistory = 217
    UpdateOperationFailed = 218
    CloseChangeStream = 222
    IllegalOpMsgFlag = 223
    QueryFeatureNotAllowed = 224
    TransactionTooOld = 225
    MaxSubPipelineDepthExceeded = 232
    TooManyDocumentSequences = 233
    RetryChangeStream = 234
    CursorKilled = 237
    NotImplemented = 238
    SnapshotTooOld = 239
    ConversionFailure = 241
    SnapshotUnavailable = 246
    StaleDbVersion = 249
    NoSuchTransaction = 251
    TransactionCommitted = 256
    TransactionTooLarge = 257
    InvalidResumeToken = 260
    TooManyLogicalSessions = 261
    ExceededTimeLimit = 262
    OperationNotSupportedInTransaction = 263
    FailPointSetFailed = 266
    PreparedTransactionInProgress = 267
    IndexBuildAborted = 276
    UnsatisfiableCommitQuorum = 278
    ChangeStreamFatalError = 280
    WouldChangeOwningShard = 283
    ChangeStreamHistoryLost = 286
    ChecksumMismatch = 288
    TransactionExceededLifetimeLimitSeconds = 290
    NoQueryExecutionPlans = 291
    QueryExceededMemoryLimitNoDiskUseAllowed = 292
    ObjectIsBusy = 314
    ConnectionPoolExpired = 317
    APIVersionError = 322
    APIStrictError = 323
    APIDeprecationError = 324
    OplogQueryMinTsMissing = 326
    MechanismUnavailable = 334
    APIMismatchError = 347
    UnsupportedOpQueryCommand = 352
    CannotConvertIndexToUnique = 359
    CollectionUUIDMismatch = 361
    CannotDropShardKeyIndex = 370
    ConnectionError = 384
    ShardRemovedError = 464
    SocketException = 9001
    NotWritablePrimary = 10107
    BSONObjectTooLarge = 10334
    DuplicateKey = 11000
    InterruptedAtShutdown = 11600
    Interrupted = 11601
    InterruptedDueToReplStateChange = 11602
    BackgroundOperationInProgressForNamespace = 12587
    MergeStageNoMatchingDocument = 13113
    DatabaseDifferCase = 13297
    StaleConfig = 13388
    NotPrimaryNoSecondaryOk = 13435
    NotPrimaryOrSecondary = 13436
    OutOfDiskSpace = 14031
    SearchNotEnabled = 31082
    IDLDuplicateField = 40413
    IDLFailedToParse = 40414
    IDLUnknownField = 40415
    NotARetryableWriteCommand = 50768
    BackupCursorOpenConflictWithCheckpoint = 50915


_NAMES = OTHER_NAMES | {int(code): code.name for code in ErrorCode}


def code_name(code: int) -> str:
    """The name a server reports for a code.

    >>> code_name(286), code_name(40602)
    ('ChangeStreamHistoryLost', 'Location40602')
    """
    return _NAMES.get(code, f"Location{code}")
