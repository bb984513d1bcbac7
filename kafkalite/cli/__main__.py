"""``python -m kafkalite.cli``. Reactor shell."""

import sys

from kafkalite.cli.main import main

sys.exit(main())
