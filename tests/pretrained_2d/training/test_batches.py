from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pretrained_2d.errors import TrainingError
from pretrained_2d.randomness import Sample
from pretrained_2d.training.batches import (
    BatchPlan,
    Shares,
    StepBatches,
    lay_out,
    load_batches,
    share,
)
from pretrained_2d.training.recipe import Recipe
from pretrained_2d.training.train import Phase


@given(size=st.integers(0, 40), parts=st.integers(1, 7))
def test_parts_are_the_batch_each_sample_once(size, parts):
    batch = list(range(size))
    assert sorted(chain(*(share(batch, part, parts) for part in range(parts)))) == batch


@given(half=st.integers(1, 6), parts=st.integers(1, 5))
def test_a_part_holds_the_pairs_that_mixup_makes(half, parts):
    batch = list(range(2 * half * parts))
    for part in range(parts):
        mine = share(batch, part, parts)
        assert all(a + b == len(batch) - 1 for a, b in zip(mine, mine[::-1], strict=True))


def test_an_epoch_shows_every_item_once_in_another_order_each_time():
    plan = BatchPlan(num_items=10, batch_size=4, seed=1, drop_last=False)
    epochs = [
        [
            sample.item
            for index in range(plan.steps_per_epoch)
            for sample in plan.batch(epoch, index)
        ]
        for epoch in range(2)
    ]
    assert [sorted(epoch) for epoch in epochs] == [list(range(10))] * 2
    assert epochs[0] != epochs[1]


def test_the_last_smaller_batch_is_dropped_or_kept():
    assert BatchPlan(10, 4, seed=0).steps_per_epoch == 2
    kept = BatchPlan(10, 4, seed=0, drop_last=False)
    assert kept.steps_per_epoch == 3
    assert len(kept.batch(0, 2)) == kept.size(2) == 2


def test_repeated_augmentation_shows_an_item_several_times_in_one_batch():
    plan = BatchPlan(num_items=12, batch_size=6, seed=0, repeats=3)
    batch = plan.batch(epoch=5, index=1)
    assert len({sample.item for sample in batch}) == 2
    assert sorted(sample.repeat for sample in batch) == [0, 0, 1, 1, 2, 2]
    assert {sample.epoch for sample in batch} == {5}


@given(processes=st.integers(1, 3), accumulation=st.integers(1, 3))
def test_any_number_of_processes_sees_the_same_global_batches(processes, accumulation):
    plan = BatchPlan(num_items=23, batch_size=7, seed=3, drop_last=False)
    loaders = [
        list(
            StepBatches(plan, Shares(rank, processes, accumulation), first_epoch=0, start=0, stop=8)
        )
        for rank in range(processes)
    ]
    for step in range(8):
        batch = plan.batch(*divmod(step, plan.steps_per_epoch))
        counted = []
        for rank, loader in enumerate(loaders):
            parts = loader[step * accumulation : (step + 1) * accumulation]
            for part, samples in zip(
                Shares(rank, processes, accumulation).of(batch), parts, strict=True
            ):
                assert samples[: len(part)] == part
                counted += part
        assert sorted(counted) == sorted(batch)


def test_a_resumed_run_continues_with_the_next_batch():
    plan, shares = BatchPlan(20, 4, seed=0), Shares()
    whole = list(StepBatches(plan, shares, first_epoch=0, start=0, stop=15))
    rest = list(StepBatches(plan, shares, first_epoch=0, start=7, stop=15))
    assert rest == whole[7:]
    assert len(StepBatches(plan, shares, first_epoch=0, start=7, stop=15)) == 8


def test_an_empty_part_runs_on_a_sample_that_does_not_count():
    plan = BatchPlan(1, 4, seed=0, drop_last=False)
    idle = StepBatches(plan, Shares(0, 2), first_epoch=0, start=0, stop=1)
    assert list(idle) == [[Sample(0, 0, 0)]]
    assert Shares(0, 2).of(plan.batch(0, 0)) == [[]]


def test_a_batch_larger_than_the_data_is_refused_with_a_remedy():
    with pytest.raises(TrainingError, match=r"batch_size is 8, but there are only 5.*drop_last"):
        BatchPlan(5, 8, seed=0)


class Numbers:
    """Sample i is the number i, its target its epoch."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, sample: Sample) -> tuple[torch.Tensor, int]:
        return torch.tensor([float(sample.item)]), sample.epoch


def test_loading_from_the_middle_of_a_phase_draws_no_random_number():
    """Dropout and augmentation depend on the step alone, also after loading was started again."""
    recipe = Recipe(batch_size=4, drop_last=False, workers=0, seed=5)
    phases = [Phase(data=Numbers(), epochs=n, normalize=torch.Tensor.float) for n in (1, 2)]
    _, span = lay_out(phases, recipe, 4)
    assert (span.first_step, span.first_epoch, span.end) == (3, 1, 9)
    before = torch.get_rng_state()
    loaded = list(load_batches(span, Shares(), recipe, start=5, pin_memory=False))
    assert torch.equal(torch.get_rng_state(), before)
    assert [targets.tolist() for _, targets in loaded] == [[1, 1], [2] * 4, [2] * 4, [2, 2]]
    expected = [s.item for index in range(3) for s in span.plan.batch(2, index)]
    assert torch.cat([signal for signal, _ in loaded[1:]]).flatten().tolist() == expected
