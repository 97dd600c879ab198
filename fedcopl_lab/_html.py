"""Small HTML tables for objects that JupyterLab displays."""

from collections.abc import Sequence
from html import escape


def table(rows: Sequence[Sequence[object]], header: Sequence[str] = (), caption: str = "") -> str:
    """A compact table; text is escaped.

    Args:
        rows: the cells, row by row; a float is written with six digits.
        header: names of the columns; none where the first cell of a row names it.
        caption: a line above the table.

    >>> table([["images", 64]])
    '<table><tr><td>images</td><td style="text-align:right">64</td></tr></table>'
    """
    above = f'<caption style="text-align:left">{escape(caption)}</caption>' if caption else ""
    names = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in rows)
    return f"<table>{above}{f'<tr>{names}</tr>' if names else ''}{body}</table>"


def folded(summary: str, inner: str) -> str:
    """HTML that opens on a click on its summary; ``inner`` is HTML, ``summary`` is text.

    >>> folded("2 rows", "<p>all of them</p>")
    '<details><summary>2 rows</summary><p>all of them</p></details>'
    """
    return f"<details><summary>{escape(summary)}</summary>{inner}</details>"


def _cell(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = f"{value:.6g}" if isinstance(value, float) else str(value)
        return f'<td style="text-align:right">{text}</td>'
    return f"<td>{escape(str(value))}</td>"
