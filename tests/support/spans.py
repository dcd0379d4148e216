"""Traces that stay in memory."""

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tailrace.traces import Traces


def traces_in_memory() -> tuple[Traces, InMemorySpanExporter]:
    """Traces, and where their spans are."""
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return Traces(provider), spans
