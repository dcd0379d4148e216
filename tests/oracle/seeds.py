"""The seeds of random comparisons: few in `make test`, more in `make oracle`; `TAILRACE_SEED` shifts them."""

import os
from typing import Final

_FIRST: Final = int(os.environ.get("TAILRACE_SEED", "1"))
SEEDS: Final = range(_FIRST, _FIRST + int(os.environ.get("TAILRACE_ORACLE_SEEDS", "1")))
