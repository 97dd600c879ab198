"""Which claims of the papers each table and figure speaks to."""

from fedcopl_lab.paper.items import Item

CLAIMS_ABOUT: dict[str, tuple[int, ...]] = {
    "fedcopl_main_fig1": (43,),
    "fedcopl_main_table1": (12, 17, 19),
    "fedcopl_main_table2": (13, 14, 15, 16),
    "fedcopl_main_table3": (21,),
    "fedcopl_main_table4": (26, 27),
    "fedcopl_main_table5": (29, 30),
    "fedcopl_main_table6": (31, 32, 33, 34),
    "fedcopl_main_fig2": (35, 36, 38),
    "fedcopl_main_fig3": (22, 23, 24, 25),
    "fedcopl_supp_fig1": (37,),
    "fedcopl_supp_fig2": (37,),
    "fedcopl_supp_fig4": (3, 4, 8, 9),
    "fedcopl_supp_table2": (26, 27, 28),
    "fedcopl_supp_table3": (1, 2, 5, 6, 7),
    "fedcopl_supp_table4": (39, 41, 42),
    "fedcopl_supp_table5": (40, 41, 42),
    "fedcopl_ours_controls": (10, 18, 20),
    "fedcopl_ours_uploads": (11, 44, 45),
    "sage_main_table1": (80, 82),
    "sage_main_parts": (67, 73),
    "sage_main_fig8": (66,),
    "sage_ours_labels": (81,),
    "sage_supp_table5": (68, 69),
    "sage_supp_table6": (77, 78),
    "sage_supp_table7": (77,),
    "sage_supp_table8": (79, 83),
    "sage_supp_fig9": (46, 47, 48, 49),
    "sage_supp_fig10": (61, 62, 63, 64, 65),
    "sage_supp_fig11": (50,),
    "sage_supp_fig12": (51, 52),
    "sage_supp_fig13": (70, 71, 72),
    "sage_supp_fig14": (74, 75, 76),
    "sage_supp_fig15": (59, 77),
    "sage_supp_fig16": (60,),
    "sage_supp_theory": (53, 54, 55, 56, 57, 58),
}
"""Item -> numbers of the claims that its picture lets a reader look at; an item that is not here has none."""


def claims_about(item: Item) -> tuple[int, ...]:
    """Numbers of the claims that an item speaks to, in the papers' order.

    >>> claims_about(find_items(["main Table 5"])[0])
    (29, 30)
    """
    return CLAIMS_ABOUT.get(item.id, ())
