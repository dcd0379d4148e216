"""The page, the metrics and the probes of `tailrace serve` and `tailrace pipeline`, over HTTP."""
