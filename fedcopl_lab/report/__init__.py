"""Pictures, tables, files and the report page, made from stored numbers; nothing here loads torch."""

from fedcopl_lab.report._bench_picture import draw_bench
from fedcopl_lab.report._bench_words import bench_markdown
from fedcopl_lab.report._claims import claim_text, claims_markdown
from fedcopl_lab.report._committed import draw_committed, write_committed
from fedcopl_lab.report._compare import against_committed, beside, committed_beside, gaps, readable
from fedcopl_lab.report._coverage import coverage, coverage_markdown
from fedcopl_lab.report._overview import beside_markdown, items_markdown, items_table
from fedcopl_lab.report._page import write_report
from fedcopl_lab.report._pictures import accuracy_per_client, confidence_entropy, counts_before_after, show_images
from fedcopl_lab.report._plots import draw
from fedcopl_lab.report._save import provenance, save, save_item
from fedcopl_lab.report._skew import label_skew
from fedcopl_lab.report._step_pictures import bars, confusion, curves, prompt_maps
from fedcopl_lab.report._style import style
from fedcopl_lab.report._tables import summary, table, to_csv, to_latex

__all__ = [
    "accuracy_per_client",
    "against_committed",
    "bars",
    "bench_markdown",
    "beside",
    "beside_markdown",
    "claim_text",
    "claims_markdown",
    "committed_beside",
    "confidence_entropy",
    "confusion",
    "counts_before_after",
    "coverage",
    "coverage_markdown",
    "curves",
    "draw",
    "draw_bench",
    "draw_committed",
    "gaps",
    "items_markdown",
    "items_table",
    "label_skew",
    "prompt_maps",
    "provenance",
    "readable",
    "save",
    "save_item",
    "show_images",
    "style",
    "summary",
    "table",
    "to_csv",
    "to_latex",
    "write_committed",
    "write_report",
]
