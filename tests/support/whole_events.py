"""The events of a history's rows."""

import pyarrow as pa

from tailrace.events.layout import event as events_layout
from tailrace.events.layout.token import documents_of_texts


def whole_events(rows: pa.RecordBatch) -> list[bytes | None]:
    """The events of some rows as BSON, with the token that the column `event` leaves out.

    None for a row without an event. Needs the columns `token`, `token_type_bits` and `event`.
    """
    with_token = events_layout.layout.with_token
    texts = rows.column("token").cast(pa.binary()).to_pylist()
    tokens = documents_of_texts(texts, rows.column("token_type_bits").to_pylist())
    stored = rows.column("event").to_pylist()
    return [
        None if raw is None else with_token(raw, token) for raw, token in zip(stored, tokens, strict=True)
    ]
