"""Benchmarks: ratios measured within one run, because machines are shared and noisy."""
