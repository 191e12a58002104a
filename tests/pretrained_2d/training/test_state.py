import pytest
import torch

from pretrained_2d.errors import TrainingError
from pretrained_2d.training.state import (
    load_newest,
    remove_partial_states,
    require_same_settings,
    save_state,
    saved_states,
)


def test_the_newest_states_are_kept(tmp_path):
    for step in (5, 10, 15):
        save_state(tmp_path, step, {"model": torch.ones(2) * step}, keep_last=2)
    assert [path.name for path in saved_states(tmp_path)] == ["step_000000010", "step_000000015"]
    path, state = load_newest(tmp_path)
    assert path.name == "step_000000015"
    assert state["step"] == 15
    assert state["model"].tolist() == [15, 15]


def test_without_states_there_is_none_to_load(tmp_path):
    assert load_newest(tmp_path / "missing") is None


def test_a_damaged_state_is_skipped_for_the_one_before(tmp_path):
    for step in (1, 2):
        save_state(tmp_path, step, {}, keep_last=2)
    (saved_states(tmp_path)[-1] / "state.pt").write_bytes(b"PK rubbish")
    with pytest.warns(UserWarning, match=r"step_000000002 is damaged"):
        path, _ = load_newest(tmp_path)
    assert path.name == "step_000000001"
    (path / "state.pt").write_bytes(b"")
    with (
        pytest.warns(UserWarning, match="damaged"),
        pytest.raises(TrainingError, match="none of the 2"),
    ):
        load_newest(tmp_path)


def test_half_written_states_are_removed(tmp_path):
    (tmp_path / ".step_000000003.ab12cd34.partial").mkdir(parents=True)
    (tmp_path / "step_000000001").mkdir()  # its removal was cut short
    whole = save_state(tmp_path, 2, {}, keep_last=2)
    remove_partial_states(tmp_path)
    assert list(tmp_path.iterdir()) == [whole]


def test_another_run_is_refused_by_name(tmp_path):
    require_same_settings(tmp_path, {"betas": [0.9, 0.99]}, {"betas": (0.9, 0.99)})
    with pytest.raises(TrainingError, match=r"lr was 0.1 and is now 0.2"):
        require_same_settings(tmp_path, {"lr": 0.1, "seed": 1}, {"lr": 0.2, "seed": 1})
