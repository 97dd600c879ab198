"""Pictures, tables, files and the report page, made from stored numbers; nothing here loads torch."""

from fedcopl_lab.report._claims import claim_text, many_tests, seeds_needed
from fedcopl_lab.report._compare import against_committed, agreement_text, beside, committed_beside, gaps, readable
from fedcopl_lab.report._coverage import coverage
from fedcopl_lab.report._distributions import label_skew
from fedcopl_lab.report._draw import draw, draw_committed
from fedcopl_lab.report._heat_maps import confusion, prompt_maps
from fedcopl_lab.report._page import write_committed, write_report
from fedcopl_lab.report._pictures import (
    accuracy_per_client,
    arrows,
    bars,
    confidence_entropy,
    counts_before_after,
    curves,
    show_images,
)
from fedcopl_lab.report._save import provenance, save, save_item
from fedcopl_lab.report._tables import summary, table, to_csv, to_latex
from fedcopl_lab.report.looks import style

__all__ = ["accuracy_per_client", "against_committed", "agreement_text", "arrows", "bars", "beside",
           "claim_text", "committed_beside", "confidence_entropy", "confusion",
           "counts_before_after", "coverage", "curves", "draw", "draw_committed", "gaps",
           "label_skew", "many_tests", "prompt_maps", "provenance", "readable",
           "save", "save_item", "seeds_needed", "show_images", "style", "summary", "table", "to_csv", "to_latex",
           "write_committed", "write_report"]  # fmt: skip
