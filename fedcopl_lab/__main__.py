"""``python -m fedcopl_lab``, the same as ``fedcopl-lab``."""

import sys

from fedcopl_lab.cli import main

if __name__ == "__main__":
    sys.exit(main())
