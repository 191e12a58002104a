import pytest

from pretrained_2d.training.optimiser import learning_rate_factor
from pretrained_2d.training.recipe import Recipe


def factors(recipe, *, phase_epochs=10, total_epochs=10, steps_per_epoch=10):
    return [
        learning_rate_factor(
            step,
            recipe=recipe,
            steps_per_epoch=steps_per_epoch,
            phase_epochs=phase_epochs,
            total_epochs=total_epochs,
        )
        for step in range(phase_epochs * steps_per_epoch)
    ]


def test_the_warm_up_is_linear_and_ends_at_the_peak():
    values = factors(Recipe(lr=1.0, warmup_steps=4))
    assert values[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert max(values) == values[4] == 1.0


def test_warm_up_in_epochs_is_the_same_as_in_steps():
    assert factors(Recipe(warmup_epochs=2)) == factors(Recipe(warmup_steps=20))


def test_the_cosine_is_half_way_down_in_the_middle_and_ends_at_the_smallest_rate():
    values = factors(Recipe(lr=2.0, min_lr=0.2))
    assert values[0] == 1.0
    assert values[50] == pytest.approx(0.55)
    assert values[-1] == pytest.approx(0.1, abs=1e-3)
    assert values == sorted(values, reverse=True)


def test_warm_up_starts_at_the_given_factor():
    values = factors(Recipe(lr=2.0, warmup_lr=1.0, warmup_steps=9))
    assert values[0] == pytest.approx(0.5 + 0.5 / 10)


def test_a_length_in_steps_is_shared_among_phases():
    # Paper, appendix B.3.2: 50 of 100 epochs get 50000 of 100000 steps.
    recipe = Recipe(schedule_steps=200)
    whole = factors(recipe, phase_epochs=10, total_epochs=10)
    half = factors(recipe, phase_epochs=5, total_epochs=10)
    assert whole[-1] == pytest.approx(0.5, abs=0.01)  # 100 of 200 steps
    assert half[-1] == pytest.approx(0.5, abs=0.02)  # 50 of 100 steps


def test_a_length_in_steps_includes_the_warm_up_and_the_end_is_kept_after_it():
    values = factors(Recipe(lr=1.0, min_lr=0.2, warmup_steps=20, schedule_steps=80))
    assert values[20] == 1.0
    assert values[50] == pytest.approx(0.6)  # halfway between 20 and 80
    assert values[80:] == pytest.approx([0.2] * 20)
    assert values[79] > 0.2


def test_constant_stays_at_the_peak():
    assert set(factors(Recipe(schedule="constant", warmup_steps=3))[3:]) == {1.0}
