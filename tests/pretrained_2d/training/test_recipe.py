import pytest

from pretrained_2d.training.recipe import Recipe


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs is 0, expected at least 1"),
        ({"batch_size": 0}, "batch_size is 0, expected at least 1"),
        ({"lr": 0.0}, "lr is 0.0, expected above 0"),
        ({"label_smoothing": 1.0}, "label_smoothing is 1.0, expected in [0, 1)"),
        ({"ema_decay": 1.0}, "ema_decay is 1.0, expected in (0, 1)"),
        ({"mixup": -1.0}, "mixup is -1.0, expected 0 or more"),
        (
            {"warmup_steps": 5, "warmup_epochs": 1.0},
            "warmup_steps is 5, expected 0 when warmup_epochs is given: one of the two",
        ),
    ],
)
def test_bad_values_are_named(settings, message):
    with pytest.raises(ValueError) as error:
        Recipe(**settings)
    assert str(error.value) == message


def test_settings_that_only_change_speed_do_not_belong_to_the_result():
    slow = Recipe(workers=0, log_every_steps=1, checkpoint_every_steps=7, compile=True)
    assert slow.result_settings() == Recipe(workers=8).result_settings()
    assert Recipe(lr=1.0).result_settings() != Recipe(lr=2.0).result_settings()


def test_batch_size_may_be_auto():
    assert Recipe(batch_size="auto").batch_size == "auto"
