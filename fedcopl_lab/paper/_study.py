"""Any study's claims: a folder with a claims table, result files and a few lines that say what their columns are."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from fedcopl_lab._errors import FedCoPLError, check_columns
from fedcopl_lab.config import LAST_ROUNDS
from fedcopl_lab.paper._evidence import TidyRows

_FIELDS = {"title": str, "claims": str, "results": str, "settings": list, "metrics": list, "seed": str, "round": str}
_NEEDED = ("settings", "metrics")


def read_study(folder: Path | str) -> tuple[str, pd.DataFrame, TidyRows]:
    """The claims of a study and the numbers to judge them on.

    ``study.toml`` in the folder says what the columns of the result files are; ``docs/claims.md`` explains its fields.

    Args:
        folder: with that file, the claims and the results.

    Returns:
        Title, claims as ``docs/claims.md`` describes them, and the numbers. Of a line per round the last round counts;
        ``accuracy_last5`` is the mean of the last five.

    Raises:
        FedCoPLError: a file, column or number is missing, or ``study.toml`` has an unknown field.

    >>> title, claims, numbers = read_study("docs/example_study")
    >>> judge(claims, numbers)["verdict"].tolist()
    ['holds', 'within noise', 'holds']

    Shown in ``docs/claims.md``.
    """
    place = Path(folder)
    try:
        told: dict[str, Any] = tomllib.loads((place / "study.toml").read_text(encoding="utf-8"))
        claims = pd.read_csv(place / told.get("claims", "claims.csv"), dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:  # TOML's errors are ValueErrors
        raise FedCoPLError(f"{place} is no study: {error}; expected study.toml and the claims it names") from error
    wrong = [name for name, value in told.items() if not isinstance(value, _FIELDS.get(name, ()))]
    lacking = [name for name in _NEEDED if name not in told]
    if wrong or lacking:
        raise FedCoPLError(
            f"study.toml is not valid in {', '.join(wrong + lacking)}; expected the fields {', '.join(_FIELDS)}, of "
            f"which {' and '.join(_NEEDED)} are needed"
        )
    files = sorted(place.glob(told.get("results", "results/*.csv")))
    if not files:
        raise FedCoPLError(f"{place} has no results {told.get('results', 'results/*.csv')!r}")
    tables = {str(path.relative_to(place)): _table(path) for path in files}
    return str(told.get("title", place.resolve().name)), claims, TidyRows(*_tidy(tables, told))


def _table(path: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise FedCoPLError(f"{path} has no results: {error}; expected a table as CSV in UTF-8") from error


def _tidy(tables: Mapping[str, pd.DataFrame], told: Mapping[str, Any]) -> tuple[pd.DataFrame, list[str]]:
    """The last round's numbers of the result files, and what is to be said of them."""
    seed, order = told.get("seed", "seed"), told.get("round")
    metrics, said = list(dict.fromkeys(told["metrics"])), list[str]()
    run, numeric = [*told["settings"], seed], list(dict.fromkeys([*metrics, *([order] if order else [])]))
    if twice := {name for name in run if run.count(name) > 1 or name in (*numeric, "metric", "value")}:
        raise FedCoPLError(f"study.toml has {', '.join(sorted(twice))} as a setting or seed and as something else, too")
    for name, table in tables.items():
        check_columns(name, (*run, *numeric), table, f"they have {', '.join(table.columns)}")
    rows = pd.concat(tables.values(), ignore_index=True)
    numbers = rows[numeric].apply(pd.to_numeric, errors="coerce")
    for name in numeric:
        if len(words := rows[name][numbers[name].isna() & (rows[name].notna() | (name == order))]):
            raise FedCoPLError(f"a line has {words.iloc[0]!r}, no number as {name}; only a metric may be left empty")
    seeds = pd.to_numeric(rows[seed], errors="coerce")
    rows[numeric], rows[seed] = numbers, rows[seed].astype(object).where(seeds.isna(), seeds)
    if order:
        if len(again := rows[rows.duplicated([*run, order])]):
            there = ", ".join(f"{name}={again[name].iloc[0]}" for name in (*run, order))
            raise FedCoPLError(f"several lines have {there}; name more settings, or read each file once")
        runs = rows.sort_values(order).groupby(run, dropna=False)
        ends = runs[order].max().value_counts().sort_index()
        if len(ends) > 1:
            told_ends = ", ".join(f"{count} of them in round {end:.0f}" for end, count in ends.items())
            said = [f"The runs of this study do not end in the same round: {told_ends}."]
        late = runs.tail(LAST_ROUNDS).groupby(run, dropna=False)[metrics]
        last = late.agg(pd.Series.mean, skipna=False)  # a group's own mean passes over NaN before pandas 3
        rows = runs.tail(1).set_index(run)[metrics].join(last.add_suffix(f"_last{LAST_ROUNDS}")).reset_index()
        metrics += [f"{name}_last{LAST_ROUNDS}" for name in metrics]
    return rows.melt(run, metrics, "metric", "value").rename(columns={seed: "seed"}), said
