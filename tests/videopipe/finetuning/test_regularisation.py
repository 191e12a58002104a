"""Drop path and head dropout can be set on a finished network, and only act in training."""

import timm
import torch
from torch import nn

from pretrained_2d.networks.layers.blocks import DropPath
from videopipe.finetuning.regularisation import set_drop_path, set_head_dropout


class Small(nn.Module):
    def __init__(self, own_dropout: bool) -> None:
        super().__init__()
        self.branches = nn.Sequential(DropPath(0.0), DropPath(0.0), DropPath(0.0))
        if own_dropout:
            self.dropout = nn.Dropout(0.0)
        self.head = nn.Linear(50, 4)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.head(self.dropout(features) if hasattr(self, "dropout") else features)


def test_drop_path_grows_linearly() -> None:
    model = Small(own_dropout=True)
    assert set_drop_path(model, 0.2) == 3
    assert [branch.rate for branch in model.branches] == [0.0, 0.1, 0.2]
    assert set_drop_path(nn.Linear(1, 1), 0.2) == 0


def test_drop_path_of_a_timm_network() -> None:
    model = timm.create_model("convnext_atto", drop_path_rate=0.5)
    assert set_drop_path(model, 0.2) > 5
    rates = [m.drop_prob for m in model.modules() if type(m).__name__ == "DropPath"]
    assert rates == sorted(rates)
    assert rates[-1] == 0.2


def test_head_dropout_with_and_without_an_own_layer() -> None:
    features = torch.ones(8, 50)
    for own in (True, False):
        model = Small(own_dropout=own)
        names = set(model.state_dict())
        set_head_dropout(model, 0.5)
        assert set(model.state_dict()) == names
        model.eval()
        assert torch.equal(model(features), model.head(features))
        model.train()
        assert len({tuple(row.tolist()) for row in model(features).detach()}) > 1
