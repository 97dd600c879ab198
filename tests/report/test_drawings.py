"""Each kind of picture holds the numbers it was given, marks what it must mark, and keeps printed ones apart."""

import math
import statistics

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcopl_lab.paper import PAPER_SETS, claims, measured, printed
from fedcopl_lab.report import draw
from fedcopl_lab.report._tables import clear_best, lead_over
from fedcopl_lab.report._words import item_of
from fedcopl_lab.report.looks import BLUE, DOUBLE, ORANGE


def means(numbers: pd.DataFrame, metric: str = "accuracy") -> dict[tuple[str, str], float]:
    """Slow and obvious: last round of each seed, then the plain mean."""
    newest: dict[tuple[str, str, int], tuple[float, float]] = {}
    for line in numbers[numbers["metric"] == metric].to_dict("records"):
        place = (line["series"], line["column"], line["seed"])
        newest[place] = max(newest.get(place, (-1.0, 0.0)), (line["x"], line["value"]))
    cells: dict[tuple[str, str], list[float]] = {}
    for (series, column, _), (_, value) in newest.items():
        cells.setdefault((series, column), []).append(value)
    return {cell: statistics.mean(values) for cell, values in cells.items()}


def drawn_lines(axes) -> list[tuple[list[float], list[float]]]:
    """x and y of each."""
    return [tuple(np.ravel(values).astype(float).tolist() for values in line.get_data()) for line in axes.lines]


def holds(values, wanted) -> bool:
    return len(values) == len(wanted) and values == pytest.approx(wanted)


def visible_texts(figure):
    figure.canvas.draw()
    return [text for text in figure.findobj(mpl.text.Text) if text.get_visible() and text.get_text().strip()]


@pytest.mark.parametrize(
    "name", ["fedcopl_main_table1", "fedcopl_main_table3", "fedcopl_main_table5", "fedcopl_main_table6"]
)
def test_measured_and_printed_rows_stand_at_equal_heights(name, picture) -> None:
    figure = picture(name)
    first, *_, last = figure.findobj(mpl.axes.Axes)
    rows = range(len(first.get_yticks()))
    heights = [[axes.transData.transform((0, row))[1] for row in rows] for axes in (first, last)]
    assert heights[0] == pytest.approx(heights[1], abs=2.0)  # pixels; titles differ in height by one


@pytest.mark.parametrize(("item", "base"), [("fedcopl_main_table1", "Zero-shot CLIP"), ("sage_main_table1", "FedAvg")])
def test_each_row_holds_its_lead_over_the_base_at_the_seeds_that_both_have(all_numbers, item, base) -> None:
    metric = "accuracy_last5" if base == "FedAvg" else "accuracy"
    numbers = all_numbers[item].query("series != @base or seed != 2")
    panels = draw(item, numbers).findobj(mpl.axes.Axes)
    names = [label.get_text() for label in panels[0].get_yticklabels()]
    of_column = numbers[numbers["metric"] == metric].groupby("column", sort=False)
    for axes, (_, part) in zip(panels, of_column, strict=False):
        cells = part.pivot(index="seed", columns="series", values="value")
        leads = 100 * cells.sub(cells[base], axis="index")
        at_rows = [(names[round(y[0])], x) for x, y in drawn_lines(axes) if y[0] in range(len(names))]
        assert {row: x[0] for row, x in at_rows if len(x) == 1} == pytest.approx(leads.mean().to_dict())
        assert {row: x[1] - x[0] for row, x in at_rows if len(x) == 2} == pytest.approx((2 * leads.std()).to_dict())


def test_ten_rows_in_two_columns_beside_the_average_of_the_paper(all_numbers, picture) -> None:
    numbers = all_numbers["fedcopl_main_table1"]
    one, two, paper = picture("fedcopl_main_table1").findobj(mpl.axes.Axes)
    assert one.get_xlim() == two.get_xlim() == paper.get_xlim()
    names = [label.get_text() for label in one.get_yticklabels()]
    for axes, column in ((one, "β = 0.1"), (two, "β = 0.05")):
        texts = {text.xy[1]: text.get_text() for text in axes.texts}
        assert [texts[row].split(" ± ")[0] for row in range(10)] == [
            f"{100 * means(numbers)[name, column]:.1f}" for name in names
        ]
    average = claims("fedcopl", "main Table 1", dataset="Average")
    found = {float(value) for line in drawn_lines(paper) for value in line[0]}
    for _, split in average.groupby("beta"):
        base = split.loc[split["method"] == "zero-shot", "value_number"].item()
        for value in split["value_number"]:
            assert any(abs(value - base - other) < 1e-9 for other in found)


def test_many_rows_are_sorted_and_few_keep_their_order(all_numbers, picture) -> None:
    names = [label.get_text() for label in picture("sage_main_table1").axes[0].get_yticklabels()]
    found = means(all_numbers["sage_main_table1"], "accuracy_last5")
    columns = dict.fromkeys(column for _, column in found)
    of_row = [statistics.mean(found[name, column] for column in columns) for name in names]
    assert of_row == sorted(of_row, reverse=True)
    few = [label.get_text() for label in picture("fedcopl_main_table6").axes[0].get_yticklabels()]
    assert few == ["neither", "text and visual", "text only", "visual only (FedCoPL)"]


def test_a_threshold_that_one_seed_never_passes_counts_it_as_0(made_up) -> None:
    numbers = made_up("sage_supp_fig9", (0, 1))
    one = numbers["column"] == numbers["column"].iloc[0]
    numbers.loc[one & (numbers["seed"] == 0) & (numbers["metric"] == "local") & (numbers["x"] >= 0.9), "value"] = 0.0
    bins = numbers[one & (numbers["metric"] == "local")]
    wanted = [100 * bins.loc[bins["x"] >= edge - 1e-9, "value"].sum() / 2 for edge in (0.5, 0.7, 0.8, 0.9, 0.95)]
    assert any(holds(ys, wanted) for _, ys in drawn_lines(draw("sage_supp_fig9", numbers).axes[0]))


def test_a_row_far_below_all_others_is_an_arrow_at_the_edge(made_up) -> None:
    numbers = made_up("fedcopl_ours_quirks")
    numbers["value"] = 0.8 + 0.01 * numbers["value"]
    numbers.loc[numbers["series"] == "no weight decay", "value"] = 0.2
    (axes,) = (figure := draw("fedcopl_ours_quirks", numbers)).axes
    assert "Printed in the paper" not in {text.get_text() for text in visible_texts(figure)}, "the paper lacks it"
    arrows = [line for line in axes.lines if line.get_marker() == "<"]
    assert [line.get_ydata()[0] for line in arrows] == [7], "the last of eight rows"
    assert axes.get_xlim()[0] > -10
    assert "20.0 ± 0.0" in [text.get_text() for text in axes.texts]


def test_label_accuracy_stands_above_every_printed_set(picture) -> None:
    figure = picture("fedcopl_supp_table3")
    *measured, one, two, three = figure.findobj(mpl.axes.Axes)
    assert [axes.get_title() for axes in measured] == [axes.get_title() for axes in (one, two, three)]
    table = claims("fedcopl", "supplement Table 3")
    drawn = [value for axes in (one, two, three) for x, _ in drawn_lines(axes) if len(x) == 3 for value in x]
    assert len(drawn) == len(table)
    assert drawn.count(0.0) == len(table) / 3, "FPL, which gains are counted from"


def test_each_method_has_its_line_over_clients_and_over_participation(all_numbers, picture) -> None:
    numbers = all_numbers["fedcopl_main_fig3"]
    clients, joining = picture("fedcopl_main_fig3").axes
    found = means(numbers)
    for axes, letter, levels in ((clients, "K", ("5", "10", "20", "30")), (joining, "R", ("0.5", "0.8", "1.0"))):
        for series in dict.fromkeys(numbers["series"]):
            expected = [100 * found[series, f"{letter} = {level}"] for level in levels]
            assert sum(holds(y, expected) for _, y in drawn_lines(axes)) == 1
        assert list(axes.get_xticks())[: len(levels)] == [float(level) for level in levels]
    assert draw("fedcopl_main_fig3", numbers.query("swept == 'n_clients'")).axes[1].texts[0].get_text() == "not run"


def test_what_was_not_run_is_marked_with_its_reason(made_up, picture) -> None:
    figure = picture("fedcopl_main_fig3")
    clients, joining = figure.axes
    words = [text.get_text() for text in visible_texts(figure)]
    assert "50\nnot run" in [label.get_text() for label in clients.get_xticklabels()]
    assert not any("not run" in label.get_text() for label in joining.get_xticklabels())
    assert any("K = 50 was not run: no draw of 1,001" in text for text in words)
    whole = draw("fedcopl_main_fig3", made_up("fedcopl_main_fig3", seeds=(0,), profile="paper"), "paper")
    assert not [text for text in visible_texts(whole) if "not run" in text.get_text()]
    assert [axes.get_title() for axes in whole.axes[::2]] == ["DTD", "RESISC45", "CIFAR-10"]


def test_counts_are_typeset_and_a_difference_is_in_bold(picture) -> None:
    texts = {text.get_text(): text.get_fontweight() for text in visible_texts(picture("fedcopl_supp_table1"))}
    for metric in ("n_classes", "n_train", "n_test"):
        paper = printed("fedcopl_supp_table1", metric).set_index("series")["value"]
        for name in PAPER_SETS:
            assert any(f"{paper[name]:,.0f}" in text for text in texts)
    assert [text for text, weight in texts.items() if weight == "bold"] == ["5,994 (printed 5,594)"]


def test_every_cell_of_the_surface_has_its_value_and_the_best_is_boxed(all_numbers) -> None:
    numbers = all_numbers["fedcopl_ours_surface"].copy()
    numbers.loc[numbers.eval("series == 'τ2 = 0.9' and column == '0.3' and metric == 'accuracy'"), "value"] = 0.95
    accuracy, labels = draw("fedcopl_ours_surface", numbers).axes
    for axes, metric in ((accuracy, "accuracy"), (labels, "label_accuracy")):
        shown = {tuple(text.get_position()): text.get_text() for text in axes.texts}
        levels = [0.1, 0.3, 0.5, 0.7, 0.9]
        for (series, column), mean in means(numbers, metric).items():
            place = (levels.index(float(column)), levels.index(float(series.removeprefix("τ2 = "))))
            assert shown[place[0] + 0.5, place[1] + 0.5] == f"{100 * mean:.1f}"
        assert len(shown) == 25
    boxes = {box.get_edgecolor(): box for box in accuracy.patches if box.get_edgecolor() == mpl.colors.to_rgba(ORANGE)}
    (box,) = boxes.values()
    assert (box.get_x() + box.get_width() / 2, box.get_y() + box.get_height() / 2) == pytest.approx((1.5, 4.5))
    assert "best: 95.0 ± 0.0 at τ1 = 0.3, τ2 = 0.9" in accuracy.get_title()
    cuts = [box.get_bbox().bounds for box in accuracy.patches if box.get_edgecolor() == mpl.colors.to_rgba("white")]
    assert cuts == [(2, 0, 1, 5), (0, 2, 5, 1)]
    half_run = draw("fedcopl_ours_surface", numbers.query("not (series == 'τ2 = 0.1' and column == '0.1')")).axes[0]
    assert [text.get_text() for text in half_run.texts if text.get_fontweight() == "bold"] == ["95.0"]


T_975 = {1: 12.7062, 2: 4.30265, 4: 2.77645, 9: 2.26216}
"""Quantiles of Student's t as tables print them."""


@given(st.sampled_from([2, 3, 5, 10]), st.randoms(use_true_random=False))
def test_paired_differences_and_their_interval(n: int, random) -> None:
    own, other = ([random.random() for _ in range(n)] for _ in range(2))
    lines = pd.DataFrame(
        [
            {"metric": "accuracy", "column": "c", "series": series, "seed": seed, "x": 1, "value": values[seed]}
            for series, values in (("other", other), ("FedCoPL", own))
            for seed in random.sample(range(n), n)
        ]
    )
    found = lead_over(lines, "c", "FedCoPL", "other")
    points = [100 * (a - b) for a, b in zip(own, other, strict=True)]
    assert found.points.tolist() == pytest.approx(points)
    assert found.mean == pytest.approx(statistics.mean(points))
    half = T_975[n - 1] * statistics.stdev(points) / math.sqrt(n)
    assert (found.low, found.high) == pytest.approx(
        (found.mean - half, found.mean + half), rel=0, abs=max(1e-5 * half, 1e-12)
    )
    assert found.clear == (abs(found.mean) > found.high - found.mean)
    turned = lead_over(lines, "c", "other", "FedCoPL")
    assert (turned.mean, turned.low, turned.high) == pytest.approx((-found.mean, -found.high, -found.low))


def test_one_seed_has_a_difference_and_no_interval(made_up) -> None:
    numbers = made_up("fedcopl_ours_spread")
    one = numbers[numbers["seed"] == 0]
    found = lead_over(one, "one partition, new prompts", "FedCoPL", "PromptFL + FPL")
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    assert not found.clear
    texts = " ".join(text.get_text() for text in visible_texts(draw("fedcopl_ours_spread", one)))
    assert "nan" not in texts
    gone = (one["series"] == "FedCoPL") & (one["column"] == one["column"].iloc[0])  # not yet run in this column
    assert "nan" not in " ".join(text.get_text() for text in visible_texts(draw("fedcopl_ours_spread", one[~gone])))


def test_differences_within_noise_are_hollow(made_up) -> None:
    numbers = made_up("fedcopl_ours_spread")
    chosen = (numbers["metric"] == "accuracy") & (numbers["series"] == "FedCoPL")
    other = (numbers["metric"] == "accuracy") & (numbers["series"] == "PromptFL + CPL")
    shift = np.where(numbers.loc[other, "seed"] % 2, 0.01, -0.01)
    numbers.loc[other, "value"] = numbers.loc[chosen, "value"].to_numpy() + shift
    zero = (numbers["metric"] == "accuracy") & (numbers["series"] == "Zero-shot CLIP")
    numbers.loc[zero, "value"] = numbers.loc[chosen, "value"].to_numpy() - 0.1 + 0.1 * shift
    for axes in draw("fedcopl_ours_spread", numbers).axes:
        diamonds = {int(line.get_ydata()[0]): line for line in axes.lines if line.get_marker() == "D"}
        assert diamonds[2].get_markerfacecolor() == "white"
        assert diamonds[0].get_markerfacecolor() == diamonds[0].get_color() == BLUE
        dots = [line for line in axes.lines if line.get_marker() == "o"]
        assert [len(line.get_xdata()) for line in dots] == [numbers["seed"].nunique()] * 4


def test_noise_on_the_uploads_is_drawn_over_epsilon_and_the_rest_as_rows(all_numbers, picture) -> None:
    numbers = all_numbers["fedcopl_ours_uploads"]
    distance, accuracy, rows, right_rows = picture("fedcopl_ours_uploads").axes
    found = means(numbers, "upload_distance")
    for kind in ("Laplace noise", "Gaussian noise"):
        expected = [found[kind, epsilon] for epsilon in ("0.1", "0.3", "1", "3", "10")]
        assert sum(holds(y, expected) for _, y in drawn_lines(distance)) == 1
        expected = [100 * means(numbers)[kind, epsilon] for epsilon in ("0.1", "0.3", "1", "3", "10")]
        assert sum(holds(y, expected) for _, y in drawn_lines(accuracy)) == 1
    assert distance.get_xscale() == accuracy.get_xscale() == "log"
    guess = statistics.mean(means(numbers, "upload_distance_global").values())
    levels = [y[0] for x, y in drawn_lines(distance) if x == [0, 1]]
    assert levels == pytest.approx([found["counts as they are", "no ε"], guess])
    names = [label.get_text() for label in rows.get_yticklabels()]
    assert any(holds(x, [found[name, "no ε"] for name in names]) for x, _ in drawn_lines(rows))
    labels = means(numbers, "label_accuracy")
    assert any(holds(x, [100 * labels[name, "no ε"] for name in names]) for x, _ in drawn_lines(right_rows))


def test_accuracy_is_drawn_over_what_a_client_has_sent_so_far(all_numbers, picture) -> None:
    numbers = all_numbers["fedcopl_ours_traffic"]
    (axes,) = picture("fedcopl_ours_traffic").axes
    assert axes.get_xlim()[0] == 0
    for method in ("FedCoPL", "PromptFL + CoPL", "pFedPrompt + CoPL", "FedOTP + CoPL"):
        own = numbers[numbers["series"] == method]
        sent, accuracies, total = [], [], 0.0
        for number in sorted(own["x"].unique()):
            of_round = own[own["x"] == number]
            total += statistics.mean(of_round[of_round["metric"] == "bytes_up"]["value"]) / 5 / 1024  # five clients
            sent.append(total)
            accuracies.append(100 * statistics.mean(of_round[of_round["metric"] == "accuracy"]["value"]))
        assert sum(holds(x, sent) and holds(y, accuracies) for x, y in drawn_lines(axes)) == 1, method


@pytest.mark.parametrize("number", [4, 5])
def test_the_papers_sweeps_stand_in_a_panel_of_their_own(number, all_numbers, picture) -> None:
    name, source = f"fedcopl_supp_table{number}", f"supplement Table {number}"
    accuracy, labels, paper = picture(name).findobj(mpl.axes.Axes)
    assert {axes.get_xscale() for axes in (accuracy, labels, paper)} == {"linear"}
    of_seed = all_numbers[name].query("metric == 'accuracy'").pivot(index="level", columns="seed", values="value")
    for heights in (of_seed.mean(axis="columns"), *(of_seed[seed] for seed in of_seed)):
        assert any(holds(x, [*of_seed.index]) and holds(y, [*100 * heights]) for x, y in drawn_lines(accuracy))
    for axes, (dataset, own) in zip([paper] * 4, claims("fedcopl", source).groupby("dataset"), strict=True):
        curve = next(line for line in axes.lines if line.get_label() == dataset)
        assert curve.get_xdata().tolist() == own["param_value"].astype(float).tolist()
        assert curve.get_ydata().tolist() == own["value_number"].tolist()


def test_shots_are_drawn_on_a_logarithmic_axis(picture) -> None:
    figure = picture("fedcopl_ours_fpl_shots")
    assert {axes.get_xscale() for axes in figure.axes} == {"log"}


@pytest.mark.parametrize("name", ["fedcopl_main_table1", "fedcopl_main_table4", "fedcopl_supp_table3"])
def test_the_papers_own_columns_fit_too(name, made_up) -> None:
    figure = draw(name, made_up(name, seeds=(0, 1), profile="paper"), "paper")
    figure.canvas.draw()
    inked = figure.get_tightbbox(figure.canvas.get_renderer())
    assert -0.02 <= inked.x0 <= inked.x1 <= DOUBLE + 0.02 == figure.get_size_inches()[0] + 0.02


def test_the_printed_panel_does_not_bear_the_name_of_the_measured_set(made_up):
    """The paper prints four other sets in main Table 6."""
    figure = draw("fedcopl_main_table6", made_up("fedcopl_main_table6", profile="mini"), "mini")
    titles = [axes.get_title() for axes in figure.findobj(mpl.axes.Axes)]
    assert titles == ["CIFAR-10, β = 0.1", "CIFAR-10, β = 0.05", "β = 0.1"]


@pytest.mark.parametrize("item", ["fedcopl_ours_spread", "fedcopl_ours_uploads"])
def test_any_row_alone_can_be_drawn(item, all_numbers) -> None:
    numbers = all_numbers[item]
    for row in numbers["series"].unique():
        assert draw(item, numbers[numbers["series"] == row]).axes


@pytest.mark.parametrize("item", ["fedcopl_ours_gates", "sage_ours_gates"])
def test_no_row_of_a_gate_is_the_best(item) -> None:
    numbers, metric = measured("smoke", item), item_of(item).metric
    assert clear_best(numbers, metric, None)
    assert clear_best(numbers, metric, item_of(item)) == set()
