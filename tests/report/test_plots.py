"""Every item is drawn from its numbers, in one style, the same bytes each time, and a notebook shows it."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from IPython.core.formatters import DisplayFormatter
from test_drawings import visible_texts

from fedcopl_lab import FedCoPLError
from fedcopl_lab.report import draw, label_skew, style
from fedcopl_lab.report.looks import SINGLE, file_bytes, new_figure


def texts_of(figure) -> list[str]:
    return [text.get_text() for text in visible_texts(figure)]


def test_the_users_matplotlib_settings_change_nothing(all_numbers) -> None:
    name = "fedcopl_supp_fig4"
    before = file_bytes(draw(name, all_numbers[name]), "png")
    with mpl.rc_context({"font.size": 20, "axes.facecolor": "black", "lines.linewidth": 9, "savefig.bbox": "tight"}):
        assert file_bytes(draw(name, all_numbers[name]), "png") == before
        assert mpl.rcParams["font.size"] == 20


def test_a_notebook_shows_the_picture_without_pyplot() -> None:
    with style():
        figure = new_figure(SINGLE, 1.0)
        figure.subplots().plot([0, 1])
    shown, about = DisplayFormatter().format(figure)
    assert shown["image/png"].startswith(b"\x89PNG")
    assert about["image/png"]["width"] == round(SINGLE * 110)
    assert "Picture" in shown["text/plain"]


def test_the_table_picture_says_what_was_measured_and_keeps_the_printed_apart(all_numbers) -> None:
    numbers = all_numbers["fedcopl_main_table1"]
    figure = draw("fedcopl_main_table1", numbers)
    texts = [text.strip() for text in texts_of(figure)]
    assert "Measured here (smoke: handwritten digits, tiny CLIP; 3 seeds)" in texts
    assert "Printed in the paper\n(ViT-B/32)" in texts
    own = numbers.query("series == 'FedCoPL' and column == 'β = 0.1' and metric == 'accuracy'")["value"]
    assert f"{100 * own.mean():.1f} ± {100 * own.std(ddof=1):.1f}" in texts
    *measured, printed = figure.findobj(mpl.axes.Axes)
    lines = [[line for axes in some for line in axes.lines] for some in (measured, [printed])]
    drawn, there = ([round(float(x), 2) for line in own for x in np.atleast_1d(line.get_xdata())] for own in lines)
    assert 12.3 not in drawn  # the paper's average of FedCoPL, 72.49, less that of CLIP, 60.19
    assert 12.3 in there


def test_drift_panel_names_its_reference_lines(all_numbers) -> None:
    texts = texts_of(draw("fedcopl_main_fig2", all_numbers["fedcopl_main_fig2"]))
    assert "all equal\n(1/K = 0.2)" in texts
    assert "orthogonal\n(ξ = 1)" in texts


def test_one_seed_draws_without_spread(made_up) -> None:
    for name in ("fedcopl_main_table1", "fedcopl_main_fig2", "fedcopl_supp_fig4", "fedcopl_ours_fpl_shots"):
        texts = " ".join(texts_of(draw(name, made_up(name, seeds=(0,)))))
        assert "1 seed" in texts
        assert "nan" not in texts


def test_numbers_of_other_items_are_left_out(all_numbers) -> None:
    together = pd.concat([numbers for numbers in all_numbers.values() if len(numbers)])
    name = "fedcopl_main_table6"
    assert file_bytes(draw(name, together), "png") == file_bytes(draw(name, all_numbers[name]), "png")


def test_bubbles_show_every_count_and_nothing_for_none() -> None:
    figure = label_skew(np.array([[40, 0, 3], [1, 25, 8]]))
    assert sorted(int(text.get_text()) for text in figure.axes[0].texts) == [1, 3, 8, 25, 40]
    areas = np.sort(figure.axes[0].collections[0].get_sizes())
    assert areas / areas[-1] == pytest.approx(np.array([1, 3, 8, 25, 40]) / 40)


def test_many_clients_and_classes_switch_to_a_heat_map() -> None:
    counts = np.random.default_rng(0).integers(0, 30, (50, 100))
    figure = label_skew(counts)
    assert not figure.axes[0].texts
    shown = figure.axes[0].collections[0].get_array()
    assert np.array_equal(np.ma.filled(shown, 0).reshape(50, 100), counts)


def test_all_clients_without_any_image_is_a_picture_too() -> None:
    label_skew(np.zeros((2, 3), dtype=int)).canvas.draw()
    label_skew(np.zeros((50, 100), dtype=int)).canvas.draw()


def test_bad_input_is_named(all_numbers) -> None:
    numbers = all_numbers["fedcopl_main_table1"]
    with pytest.raises(FedCoPLError, match="unknown item 'fedcopl_main_table9'"):
        draw("fedcopl_main_table9", numbers)
    with pytest.raises(FedCoPLError, match="cannot be drawn without numbers"):
        draw("fedcopl_main_table1")
    with pytest.raises(FedCoPLError, match="lack the columns value"):
        draw("fedcopl_main_table1", numbers.drop(columns="value"))
    with pytest.raises(FedCoPLError, match="no 'drift_text' of fedcopl_main_fig2"):
        draw("fedcopl_main_fig2", numbers)
    with pytest.raises(FedCoPLError, match="a value that is no number"):
        draw("fedcopl_main_table1", numbers.assign(value=float("nan")))
    with pytest.raises(FedCoPLError, match="counts '' hold -1"):
        label_skew(np.array([[1, -1]]))
    with pytest.raises(FedCoPLError, match="2 class names for 3 classes"):
        label_skew(np.array([[1, 2, 3]]), ["a", "b"])
    with pytest.raises(FedCoPLError, match="no counts to draw"):
        label_skew({})
