"""``fedcopl-lab save``: a table or figure as files for a paper."""

import argparse

from fedcopl_lab.cli.options import add_profile
from fedcopl_lab.config import profile_name


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of ``save``."""
    parser.description = (
        "Writes the committed numbers of a table or figure for a paper: a PDF and its caption, or what --formats names."
    )
    add_profile(parser)
    add = parser.add_argument
    add("item", help="id such as fedcopl_main_table1, or its place, such as 'main Table 1'")
    add("to", help="file, such as paper/table1.pdf; without an ending, one file of each format")
    add("--formats", nargs="+", default=(), metavar="F", help="pdf, svg, png, tex (tables), csv, txt (default: pdf)")
    add("--width", default="double", help="single (3.25 in, one column) or double (6.75 in; default)")
    add("--font", default="sans", help="sans (default) or serif")
    add("--heading", action="store_true", help="say in the picture what was measured; else the caption alone does")
    add("--paper", action="store_true", help="set what the paper prints beside it")
    parser.set_defaults(command=save_files)


def save_files(options: argparse.Namespace) -> int:
    """Write the files and name them."""
    from fedcopl_lab.report import save

    for path in save(options.item, options.to, tuple(options.formats), None, profile_name(options.profile),
                     width=options.width, font=options.font, heading=options.heading, paper=options.paper):  # fmt: skip
        print(f"wrote {path}")
    return 0
