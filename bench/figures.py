"""Percentiles, and how figures are printed."""

from collections.abc import Sequence


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that so many percent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def print_times(label: str, seconds: Sequence[float]) -> None:
    """One line: median and 99th percentile, and the largest."""
    shown = "  ".join(
        f"{name} {value * 1000:8.2f} ms"
        for name, value in (
            ("p50", percentile(seconds, 50)),
            ("p99", percentile(seconds, 99)),
            ("max", max(seconds)),
        )
    )
    print(f"  {label:<34}{shown}", flush=True)


def print_goal(label: str, value: float, goal: str, unit: str = "") -> None:
    """One line: a figure and what it should be."""
    print(f"  {label:<34}{value:8.2f}{unit}   goal {goal}", flush=True)
