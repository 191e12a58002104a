"""Plots of runs with many lines."""

import warnings

import pytest

from videopipe.report.pictures import plots


@pytest.mark.parametrize("label", ["seed={}", "state_spaces (length=4, recipe.seed={}): waiting"])
def test_the_legend_of_many_lines_leaves_room_for_them(label):
    """Inside the axes it would cover them; matplotlib warns when a legend takes all the space."""
    series = {label.format(number): [(0, number), (1, 2 * number)] for number in range(60)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        picture = plots.curves("many", "Loss", series, x="step", y="loss")
    assert picture.svg.count("recipe.seed" if "recipe" in label else "seed=") >= 60
