"""HTML tables: text is escaped, numbers are aligned, what is folded opens on a click."""

from fedcopl_lab._html import folded, table


def test_text_is_escaped_everywhere():
    html = table([["<b>", 1.5]], header=["a & b", "c"], caption="<i>")
    assert not any(raw in html for raw in ("<b>", "<i>"))
    assert all(shown in html for shown in ("&lt;b&gt;", "a &amp; b", "&lt;i&gt;"))
    assert folded("<x>", "<p>kept</p>") == "<details><summary>&lt;x&gt;</summary><p>kept</p></details>"


def test_floats_are_short_and_right_aligned():
    assert '<td style="text-align:right">0.333333</td>' in table([[1 / 3, True]])
    assert "<td>True</td>" in table([[1 / 3, True]])
