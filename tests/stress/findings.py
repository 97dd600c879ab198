"""What a stress run counts, and the table it writes."""

import csv
import io
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from pathlib import Path


@dataclass(frozen=True)
class Finding:
    """One counted result."""

    part: str  # determinism, kills, ctrl-c, faults, fuzz, load or ray
    name: str  # what was tried
    measure: str  # what the number counts
    value: float  # the number
    expected: str  # what it has to be, in words; empty where it is only reported
    passed: bool  # whether it is
    note: str = ""  # the outcome in words

    def __str__(self) -> str:
        mark = "ok" if self.passed else "NO"
        wanted = f" (expected {self.expected})" if self.expected else ""
        return f"[{mark}] {self.part}: {self.name}: {self.measure} {self.value:g}{wanted} {self.note}".rstrip()


def write_table(path: Path, findings: Iterable[Finding]) -> None:
    """The findings as CSV, one line each."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(field.name for field in fields(Finding))
    for finding in findings:
        *start, value, expected, passed, note = astuple(finding)
        table.writerow([*start, f"{value:.6g}", expected, "yes" if passed else "no", note])
    path.write_text(text.getvalue(), encoding="utf-8")
