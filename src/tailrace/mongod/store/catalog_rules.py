"""What changes of the catalog do in some MongoDB releases and not in others."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class CatalogRules:
    """The defaults are those of the newest release."""

    rounds_capped_sizes: bool = False
    """Whether the size of a capped collection is rounded up to a multiple of 256"""
    repeats_are_errors: bool = False
    """Whether `create` of what exists and `drop` of what does not are errors"""
    compound_wildcards: bool = True
    """Whether an index may have a wildcard among other fields"""
    series_output: bool = True
    """Whether `$out` can replace a time series"""
    ttl_on_capped: bool = True
    """Whether a capped collection may have indexes that remove expired documents"""
    logs_validation_errors: bool = True
    """Whether there is the validation action `errorAndLog`"""
    long_counts: bool = True
    """Whether the number of removed documents is always logged as an `Int64`"""
    marks_database_drops: bool = True
    """Whether the drop of a database is logged with `fromMigrate`, also if that is false"""


NEWEST_RULES: Final = CatalogRules()
