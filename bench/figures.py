"""Compute percentiles and print figures."""

from collections.abc import Sequence


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that ``percent`` percent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def print_times(label: str, seconds: Sequence[float]) -> None:
    """Print a line with the median, the 99th percentile and the maximum."""
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
    """Print a line with a figure and its goal."""
    print(f"  {label:<34}{value:8.2f}{unit}   goal {goal}", flush=True)
