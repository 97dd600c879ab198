"""The committed measurements: read by notebooks, report and tests; written by ``fedcopl-lab export`` only."""

from collections.abc import Mapping, Set
from functools import lru_cache
from importlib import resources
from pathlib import Path

import pandas as pd

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import write_atomic
from fedcopl_lab.paper._collect import VALUE_COLUMNS, with_settings
from fedcopl_lab.paper._judge import VERDICT_COLUMNS
from fedcopl_lab.paper._sage_reached import with_speed_ups

_CELL = ["item", "series", "column"]
_ORDER = [*_CELL, "metric", "x", "y", "seed"]


def measured(profile: str = "smoke", item: str | None = None) -> pd.DataFrame:
    """The committed numbers of a profile, or of one of its items, as :func:`fedcopl_lab.paper.collect` gives them.

    Raises:
        FedCoPLError: nothing was measured in that profile.

    >>> measured("smoke").query("item == 'fedcopl_main_table6'")["role"].unique().tolist()
    ['other', 'own']
    """
    lines = _read(f"{profile}.csv", profile)
    return with_settings(lines if item is None else lines[lines["item"] == item], profile)


def measured_runs(profile: str = "smoke") -> pd.DataFrame:
    """The runs behind :func:`measured`: hardware, seconds and package versions by run key."""
    return _read(f"{profile}.runs.csv", profile)


def read_measured(folder: Path, profile: str) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Numbers, runs and verdicts of a profile as a folder holds them.

    Raises:
        FedCoPLError: it lacks one of the three files.
    """
    numbers = with_settings(_read(f"{profile}.csv", profile, folder), profile)
    runs = _read(f"{profile}.runs.csv", profile, folder)
    return numbers, runs, _claims(profile, folder)


def write_measured(folder: Path, profile: str, numbers: pd.DataFrame, runs: pd.DataFrame) -> tuple[Path, Path]:
    """Write both files of a profile, sorted, so that the same numbers give the same bytes."""
    values, origins = folder / f"{profile}.csv", folder / f"{profile}.runs.csv"
    numbers = numbers.assign(y=pd.to_numeric(numbers["y"]).astype("Int64"))  # read back they are floats: 3.0
    numbers = in_file_order(numbers[VALUE_COLUMNS])
    write_atomic(values, numbers.to_csv(index=False, lineterminator="\n"))
    write_atomic(origins, runs.to_csv(index=False, lineterminator="\n"))
    return values, origins


def in_file_order(numbers: pd.DataFrame) -> pd.DataFrame:
    """The lines as the committed files have them, so that sums over them give the same bits."""
    return numbers.sort_values(_ORDER, kind="stable", ignore_index=True)


def measured_claims(profile: str = "smoke") -> pd.DataFrame:
    """The committed verdicts of a profile, as :func:`fedcopl_lab.paper.verdicts` gives them.

    Raises:
        FedCoPLError: no verdicts of that profile are committed.

    >>> len(measured_claims("smoke"))
    83
    """
    return _claims(profile, measured_folder())


def write_claims(folder: Path, profile: str, verdicts: pd.DataFrame) -> Path:
    """Write a profile's verdicts; the same verdicts give the same bytes."""
    path = folder / f"{profile}.claims.csv"
    write_atomic(path, verdicts.to_csv(index=False, lineterminator="\n"))
    return path


def measured_profiles() -> list[str]:
    """The profiles of which numbers are committed.

    >>> measured_profiles()
    ['mini', 'smoke']
    """
    return sorted(path.stem for path in measured_folder().glob("*.csv") if "." not in path.stem)


def measured_clip_labels() -> pd.DataFrame:
    """The committed numbers of :func:`fedcopl_lab.methods.label_quality` on a real CLIP: labels only, no training.

    Scores are OpenAI's ViT-B/32 on 500 test images of CIFAR-10, from stored features that are not in the package.

    Returns:
        Columns labeller, beta, seed, n_selected, n_right, label_accuracy, set_accuracy, set_size; see there.

    >>> measured_clip_labels()["labeller"].unique().tolist()
    ['argmax', 'FPL', 'CPL', 'CoPL', 'FPL, few', 'CPL, few']

    Shown in notebook ``data_check``.
    """
    return pd.read_csv(measured_folder() / "clip_features.labels.csv")


def measured_folder() -> Path:
    """Where the committed measurements lie."""
    return Path(str(resources.files("fedcopl_lab.paper"))) / "measured"


def _claims(profile: str, folder: Path) -> pd.DataFrame:
    table = _read(f"{profile}.claims.csv", profile, folder)
    table = table.reindex(columns=VERDICT_COLUMNS)
    texts = ["statistic", "runs", "note", "excludes_paper"]
    return table.assign(**{name: table[name].astype(object).fillna("") for name in texts})


def _read(name: str, profile: str, folder: Path | None = None) -> pd.DataFrame:
    path = (folder or measured_folder()) / name
    if not path.is_file():
        known = ", ".join(measured_profiles()) or "none yet"
        raise FedCoPLError(f"nothing measured in profile {profile!r} is committed; profiles with numbers: {known}")
    return _parsed(path, path.stat().st_mtime_ns).copy()


@lru_cache(maxsize=8)
def _parsed(path: Path, changed: int) -> pd.DataFrame:
    return pd.read_csv(path, converters={"value": lambda text: float(text or "nan")})  # to the last bit


def add_numbers(
    committed: pd.DataFrame, fresh: pd.DataFrame, asked_for: Mapping[tuple[str, str, str], Set[str]]
) -> pd.DataFrame:
    """The committed cells, and those of the fresh ones that are not among them or have all their numbers and more.

    A cell stays whole, so that its seeds come from where they came from; it goes where one of its runs is no longer
    what the item asks for. How many times faster a run reached an accuracy is computed again over both.

    Args:
        committed: as :func:`fedcopl_lab.paper.measured` gives it.
        fresh: as :func:`fedcopl_lab.paper.collect` gives it, of all items.
        asked_for: (item, series, column) -> the keys of the runs that the cell asks for today.
    """
    held, stored = _numbers_of_cells(committed), _numbers_of_cells(fresh)
    current = [
        cell
        for cell, there in held.items()
        if {key for key, _ in there} <= asked_for.get(cell, set()) and not there < stored.get(cell, set())
    ]
    kept, new = (pd.MultiIndex.from_frame(table[_CELL]).isin(current) for table in (committed, fresh))
    tables = [table for table in (committed[kept], fresh[~new]) if len(table)]
    return with_speed_ups(pd.concat(tables, ignore_index=True)) if tables else fresh[~new]


def add_claims(committed: pd.DataFrame, fresh: pd.DataFrame, asked_for: Set[str]) -> pd.DataFrame:
    """The committed verdicts, but the fresh one of a claim that rests on all runs of the committed one and more, or
    gives the same number on the same runs; or whose committed verdict rests on a run that is no longer ``asked_for``
    (keys), or on none and on no more cells.
    """
    before = {(line["number"], line["claim"]): line for line in committed.to_dict("records")}
    rows = []
    for row in fresh.to_dict("records"):
        old = before.get((row["number"], row["claim"]), row)
        runs, more = (set(str(line["runs"]).split()) for line in (old, row))
        told = runs == more and old["statistic"] == row["statistic"]  # the same number, a later note
        kept = runs <= asked_for and not (runs < more or told) if runs else not more and old["cells"] > row["cells"]
        rows.append(old if kept else row)
    return pd.DataFrame(rows, columns=fresh.columns)


def _numbers_of_cells(numbers: pd.DataFrame) -> dict[tuple[str, str, str], set[tuple[str, str]]]:
    found: dict[tuple[str, str, str], set[tuple[str, str]]] = {}
    for item, series, column, key, metric in numbers[[*_CELL, "key", "metric"]].itertuples(index=False):
        found.setdefault((item, series, column), set()).add((key, metric))
    return found
