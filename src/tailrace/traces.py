"""OpenTelemetry traces, if the environment of the process asks for them (`tailrace[otel]`).

A span is made when something has ended, so nothing has to carry one meanwhile, and nothing is paid without
traces. The variables of OpenTelemetry configure where spans are sent, how many are sampled, and what the
process is called.
"""

import os
import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from tailrace.errors import missing_package

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_EXPORTER: Final = "OTEL_TRACES_EXPORTER"
_OFF: Final = "OTEL_SDK_DISABLED"
_NAME: Final = "tailrace"
_NANOSECONDS: Final = 1_000_000_000


class Traces:
    """Where spans go."""

    def __init__(self, provider: "TracerProvider") -> None:
        # imported here: most processes make no traces, and the packages may not be installed
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind, Status, StatusCode

        self._provider = provider
        self._tracer = provider.get_tracer(_NAME)
        self._no_parent = Context()
        self._kind = SpanKind.SERVER
        self._failed = partial(Status, StatusCode.ERROR)

    def add(self, name: str, began: float, attributes: Mapping[str, str | int], error: str = "") -> None:
        """Add a span of something that began at a `time.monotonic` and ends now."""
        end = time.time_ns()
        span = self._tracer.start_span(
            name,
            self._no_parent,
            kind=self._kind,
            attributes=attributes,
            start_time=end - int((time.monotonic() - began) * _NANOSECONDS),
        )
        if error:
            span.set_status(self._failed(error))
        span.end(end)

    def close(self) -> None:
        """Send what was not sent yet."""
        self._provider.shutdown()


def are_wanted(environment: Mapping[str, str]) -> bool:
    """Whether variables ask for traces.

    >>> are_wanted({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"})
    True
    >>> are_wanted({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER": "none"})
    False
    """
    if environment.get(_OFF, "").lower() == "true":
        return False
    exporter = environment.get(_EXPORTER, "")
    return exporter != "none" and (bool(exporter) or any(environment.get(name) for name in _ENDPOINTS))


def wanted_traces() -> Traces | None:
    """Return the traces that the environment asks for; `UsageError` if their package is not installed."""
    if not are_wanted(os.environ):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise missing_package("OpenTelemetry", error, extra="otel") from None
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": _NAME}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Traces(provider)
