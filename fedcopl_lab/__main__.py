"""``python -m fedcopl_lab``, the same as ``fedcopl-lab``."""

from fedcopl_lab.cli import entry

if __name__ == "__main__":
    entry()
