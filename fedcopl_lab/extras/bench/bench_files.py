"""What every ``fedcopl-lab bench`` does at its start and its end: threads, folder, files."""

import argparse
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from fedcopl_lab._files import write_atomic
from fedcopl_lab.cli._reproduce import figures_folder


def prepare(options: argparse.Namespace) -> Path:
    """Set the threads that were asked for; the folder for the files."""
    import torch

    if options.threads:
        torch.set_num_threads(options.threads)
    return Path(options.out) if options.out else figures_folder()


def csv_text(table: pd.DataFrame) -> str:
    """The table as the benches write it: six digits."""
    return table.to_csv(index=False, float_format="%.6g", lineterminator="\n")


def write_files(folder: Path, files: Mapping[str, bytes | str]) -> None:
    """Write name -> content, and say so."""
    for name, content in files.items():
        write_atomic(folder / name, content)
    print(f"wrote {', '.join(files)} to {folder}")
