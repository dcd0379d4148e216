"""``python -m tailrace`` is the console script `tailrace`."""

import sys

from tailrace.cli.main import main

sys.exit(main())
