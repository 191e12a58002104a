"""A layer followed by time, and the mean of neighbouring steps."""

import pytest
import torch
from torch import Tensor, nn

from videopipe.inflation.mixing.folding.folded_batch import FoldedBatch
from videopipe.inflation.mixing.time_mixed import TimeMixed, TimePooling


class Spatial(nn.Module):
    stride = 7

    def forward(self, signal: Tensor, *, several: bool) -> Tensor | tuple[Tensor, ...]:
        return (signal + 1, signal + 2, signal + 3) if several else signal + 1


def test_of_several_outputs_the_first_is_mixed_along_time() -> None:
    layer = TimeMixed(Spatial(), nn.Threshold(5.5, 100.0))  # 100 for what is not above
    signal = torch.tensor([-5.0, 5.0])
    assert layer.stride == 7
    assert layer(signal, several=False).tolist() == [100, 6]
    assert [part.tolist() for part in layer(signal, several=True)] == [[100, 6], [-3, 7], [-2, 8]]


@pytest.mark.parametrize(("steps", "reduction"), [(4, 1), (5, 1), (8, 2), (2, 1)])
@pytest.mark.parametrize("shape", [(3,), (3, 2, 2)])
def test_neighbouring_steps_are_averaged(
    steps: int, reduction: int, shape: tuple[int, ...]
) -> None:
    batch = FoldedBatch()
    batch.clips, batch.steps = 2, steps
    left = steps // reduction
    folded = torch.randn(2 * left, *shape)
    signal = folded.view(2, left, *shape)
    pairs = [signal[:, n : n + 2].mean(1) for n in range(0, left - 1, 2)]
    found = TimePooling(batch, reduction=reduction)(folded)
    torch.testing.assert_close(found, torch.stack(pairs, 1).flatten(0, 1))
