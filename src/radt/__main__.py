"""`python -m radt` is the command `radt`, for where scripts are not on the path."""

import sys

from radt.cli import main

sys.exit(main())
