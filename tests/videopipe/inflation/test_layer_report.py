"""What became of each layer."""

import pytest
import torch
from torch import Tensor

from videopipe.inflation.layer_report import _status

Pairs = list[tuple[Tensor, Tensor | None]]

ONE, OTHER, LONGER = torch.ones(2), torch.zeros(2), torch.ones(3)


@pytest.mark.parametrize(
    ("pairs", "status"),
    [
        ([(ONE, None)], "new"),
        ([(ONE, ONE), (OTHER, OTHER)], "copied"),
        ([(ONE, OTHER)], "inflated"),
        ([(LONGER, ONE)], "inflated"),
        ([(ONE, ONE), (OTHER, ONE)], "inflated"),
        ([(ONE, ONE), (OTHER, None)], "inflated"),
    ],
)
def test_a_layer_is_copied_only_where_every_number_is(pairs: Pairs, status: str) -> None:
    assert _status(pairs) == status
