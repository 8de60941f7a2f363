"""Figures of a run: what a log of any length and with any number becomes."""

from math import inf, nan

import pytest

from clearhead.explain.curves import Axis, figures, label, round_step, smoothed, thinned
from clearhead.explain.report import page


def figure(log, name):
    return next(figure for figure in figures(log) if figure.name == name)


def numbers(path):
    """The places of a path."""
    return [
        tuple(map(float, place.removesuffix("h0").split())) for place in path.replace("M", "L").split("L")[1:]
    ]


# Any log makes a page.


def test_a_run_of_one_step_is_a_dot(log):
    drawn = figure(log(1, 1), "loss")
    assert [len(line.dots) for line in drawn.lines] == [1, 1]
    assert drawn.field.across.ticks == ((0, "0"), (1, "1"))


def test_a_run_of_20_000_steps_stays_small(report, log):
    html = page(report(log=log(20_000, 20)))
    assert len(html.encode()) < 100_000


def test_20_000_evaluations_stay_small(report, log):
    html = page(report(log=log(20_000, 20_000)))
    assert len(html.encode()) < 120_000


@pytest.mark.parametrize("bad", [nan, inf, -inf, 1e308, 10**400, None])
@pytest.mark.parametrize("places", [[0], [119], [239], range(240), range(100, 140)])
def test_a_loss_that_is_no_number_breaks_no_page(report, log, bad, places):
    lines = log()
    for place in places:
        lines[place] |= {"loss": bad}
    html = page(report(log=lines)).split('<div class="figures">')
    assert f"The loss is no finite number at {len(places):,} of 240 steps" in "".join(html)
    drawn = html[1].split("</section>")[0].lower()
    assert "nan" not in drawn
    assert "inf" not in drawn


def test_other_numbers_that_are_none_break_no_page(report, log):
    names = ("learning_rate", "eval_loss", "eval_accuracy")
    html = page(report(log=[line | dict.fromkeys(names, nan) for line in log()]))
    assert html.count("<svg class") == 1


def test_a_loss_of_nothing_but_zeros_is_drawn(log):
    drawn = figure([{"step": step, "loss": 0.0} for step in range(1, 9)], "loss")
    assert {y for _, y in numbers(drawn.lines[0].path)} == {100}


def test_a_spike_presses_nothing_flat_and_is_said(log):
    lines = log()
    lines[150] |= {"loss": 1e6}
    drawn = figure(lines, "loss")
    assert drawn.field.up.high <= 2
    assert "Above the figure: the loss of 1 of 240 steps, at most 1e6 at step 151." in drawn.remark
    assert "each at most 2" in drawn.lines[1].name


# What is drawn.


def test_accuracy_is_drawn_from_two_points_on(log):
    assert [drawn.name for drawn in figures(log(60, 1))] == ["loss", "rate"]
    assert [drawn.name for drawn in figures(log(60, 2))] == ["loss", "accuracy", "rate"]


def test_an_empty_log_has_no_figures():
    assert figures([]) == []


def test_a_short_run_has_no_mean(log):
    assert [line.name for line in figure(log(40, 1), "loss").lines] == ["training, each step", "validation"]


def test_validation_is_a_dot_at_each_evaluation(log):
    assert len(figure(log(240, 3), "loss").lines[-1].dots) == 3
    assert figure(log(240, 3), "accuracy").remark == "Best: 91.3\N{NO-BREAK SPACE}% after step 240."


def test_a_gap_interrupts_a_line():
    log = [{"step": step, "loss": nan if step == 3 else 1.0} for step in range(1, 6)]
    assert figure(log, "loss").lines[0].path.count("M") == 2


def test_every_place_lies_in_the_figure(log):
    lines = log()
    lines[10] |= {"loss": 1e9}
    for drawn in figures(lines):
        for line in drawn.lines:
            assert all(0 <= place <= 100 for point in numbers(line.path) for place in point)


# Thinning and smoothing.


def test_few_points_are_all_drawn():
    points = [(step, float(step % 7)) for step in range(600)]
    assert thinned(points) == points


def test_thinning_keeps_the_extremes_the_order_and_the_gaps():
    points = [(step, float(step % 7)) for step in range(20_000)]
    points[777], points[778], points[9000] = (777, 99.0), (778, -99.0), (9000, nan)
    kept = thinned(points)
    assert len(kept) < 700
    assert (777, 99.0) in kept
    assert (778, -99.0) in kept
    assert any(value != value for _, value in kept)
    assert [step for step, _ in kept] == sorted(step for step, _ in kept)


def test_smoothing_is_a_centred_mean_that_leaves_out_what_is_no_number():
    points = [(1, 1.0), (2, 2.0), (3, nan), (4, 4.0), (5, 50.0)]
    found = smoothed(points, 3, most=10)
    assert found[:2] == [(1, 1.5), (2, 1.5)]
    assert found[2][1] != found[2][1]
    assert found[3:] == [(4, 7.0), (5, 7.0)]


# Axes.


@pytest.mark.parametrize(
    ("least", "step"),
    [(0.9, 1), (1, 1), (1.1, 2), (3, 5), (7, 10), (0.13, 0.2), (2e-5, 2e-5), (2.1e-5, 5e-5)],
)
def test_steps_are_round(least, step):
    assert round_step(least) == pytest.approx(step)


@pytest.mark.parametrize(
    ("value", "step", "shown"),
    [
        (0, 0.1, "0"),
        (0.3, 0.1, "0.3"),
        (20_000, 5000, "20,000"),
        (5e-5, 5e-5, "5e-5"),
        (1.5e-4, 5e-5, "1.5e-4"),
    ],
)
def test_ticks_are_labelled_as_people_write(value, step, shown):
    assert label(value, step) == shown


def test_an_axis_ends_at_ticks():
    axis = Axis.over(0.03, 0.71, most=5)
    assert (axis.low, axis.high) == pytest.approx((0, 0.8))
    assert [name for _, name in axis.ticks] == ["0", "0.2", "0.4", "0.6", "0.8"]
    assert [name for _, name in Axis.over(0, 3e-5, most=4).ticks] == ["0", "1e-5", "2e-5", "3e-5"]


@pytest.mark.parametrize("last", [1, 2, 3, 7, 60, 240, 9999, 20_000, 10**7])
def test_steps_are_counted_in_whole_numbers(last):
    ticks = Axis.of_steps([{"step": last}]).ticks
    assert 2 <= len(ticks) <= 7
    assert all(isinstance(value, int) for value, _ in ticks)
