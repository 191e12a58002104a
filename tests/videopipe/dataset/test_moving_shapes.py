"""A single frame does not show the class; several do."""

import numpy as np
import pytest
from scipy.stats import kstest

from videopipe.dataset.moving_shapes import (
    MOTIONS,
    SHAPES,
    Motion,
    Scene,
    draw_scene,
    frames_of,
    picture_of,
    state_at,
)


def scenes(count: int) -> list[Scene]:
    return [draw_scene(np.random.default_rng(seed), 16) for seed in range(count)]


@pytest.mark.parametrize("motion", MOTIONS)
@pytest.mark.parametrize("seconds", [0.0, 0.4, 1.7])
def test_at_any_moment_every_class_has_the_same_states(motion: Motion, seconds: float) -> None:
    states = np.array([state_at(scene, motion, seconds) for scene in scenes(400)])
    assert ((states >= 0) & (states < 1)).all()
    for values in states.T:
        assert kstest(values, "uniform").pvalue > 1e-4
    correlation = np.corrcoef(states.T) - np.eye(4)
    assert np.abs(correlation).max() < 0.25


def test_each_motion_changes_one_thing_and_its_opposite_undoes_it() -> None:
    (scene,) = scenes(1)
    start = np.array(state_at(scene, "left", 0))
    pairs = (
        ("left", "right"),
        ("up", "down"),
        ("clockwise", "counter_clockwise"),
        ("grow", "shrink"),
    )
    for one, other in pairs:
        there = (np.array(state_at(scene, one, 0.3)) - start + 0.5) % 1 - 0.5
        back = (np.array(state_at(scene, other, 0.3)) - start + 0.5) % 1 - 0.5
        assert (np.abs(there) > 1e-3).sum() == 1
        np.testing.assert_allclose(there, -back, atol=1e-12)


def centre_of_change(scene: Scene, motion: Motion) -> tuple[float, float]:
    first, later = frames_of(scene, motion, num_frames=2, frame_rate=4)
    empty = scene.background.astype(int)
    places = []
    for frame in (first, later):
        covered = np.abs(frame.astype(int) - empty).sum(-1) > 60
        rows, columns = np.nonzero(covered)
        places.append((columns.mean(), rows.mean()))
    return places[1][0] - places[0][0], places[1][1] - places[0][1]


def test_motions_go_where_their_names_say() -> None:
    random = np.random.default_rng(0)
    scene = draw_scene(random, 64)
    centred = Scene(**{**vars(scene), "x": 0.5, "y": 0.5, "log_size": 0.3})
    right, down = centre_of_change(centred, "right"), centre_of_change(centred, "down")
    left, up = centre_of_change(centred, "left"), centre_of_change(centred, "up")
    assert right[0] > 2
    assert left[0] < -2
    assert down[1] > 2
    assert up[1] < -2
    assert abs(right[1]) < 1
    assert abs(up[0]) < 1


def test_clockwise_turns_as_a_clock_does() -> None:
    scene = draw_scene(np.random.default_rng(1), 64)
    plain = np.zeros((64, 64, 3), dtype=np.uint8)
    arrow = Scene(**{**vars(scene), "shape": "bar", "background": plain, "x": 0.5, "y": 0.5,
                     "angle": 0.75, "log_size": 0.5, "speed": 1.0})  # fmt: skip
    upright = picture_of(arrow, *state_at(arrow, "clockwise", 0)).sum(-1) > 30
    turned = picture_of(arrow, *state_at(arrow, "clockwise", 0.25)).sum(-1) > 30
    assert upright[:32].sum() == pytest.approx(upright[32:].sum(), rel=0.1)
    assert turned[:32, 32:].sum() > 2 * turned[:32, :32].sum()


def test_shapes_differ_and_colours_can_be_seen() -> None:
    scene = draw_scene(np.random.default_rng(0), 64)
    pictures = {}
    for shape in SHAPES:
        same = Scene(**{**vars(scene), "shape": shape})
        picture = picture_of(same, 0.5, 0.5, 0.1, 0.5)
        assert np.abs(picture.astype(int) - scene.background).max() > 50
        pictures[picture.tobytes()] = shape
    assert len(pictures) == len(SHAPES)


def test_a_shape_that_leaves_on_one_side_enters_on_the_other() -> None:
    scene = draw_scene(np.random.default_rng(0), 64)
    plain = np.zeros((64, 64, 3), dtype=np.uint8)
    scene = Scene(**{**vars(scene), "background": plain, "colour": (255, 255, 255)})
    middle = picture_of(scene, 0.5, 0.5, 0.2, 0.5)
    corner = picture_of(scene, 0.0, 0.0, 0.2, 0.5)
    rolled = np.roll(corner, (32, 32), axis=(0, 1))
    assert np.abs(middle.astype(int) - rolled).mean() < 2
