"""Parts shared by blocks: a norm over channels, a two-layer perceptron, drop path."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class ChannelNorm(nn.LayerNorm):
    """Layer norm over the channels of (batch, channels, *axes).

    The result is stored channels last, which is how the linear layers after it read it.
    """

    def forward(self, signal: Tensor) -> Tensor:
        """The same shape, mean 0 and variance 1 over channels at every position."""
        return super().forward(signal.movedim(1, -1)).movedim(-1, 1)


class Perceptron(nn.Module):
    """Two linear layers with a GELU between, on the last dim."""

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = linear(channels, hidden)
        self.fc2 = linear(hidden, channels)

    def forward(self, tokens: Tensor) -> Tensor:
        """(…, channels) -> (…, channels)."""
        return self.fc2(functional.gelu(self.fc1(tokens)))


class DropPath(nn.Module):
    """Leave out a residual branch for whole samples at random, in training only."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, branch: Tensor) -> Tensor:
        """(batch, …) -> the same, some samples zero and the others scaled up to keep the mean."""
        if not self.training or self.rate == 0:
            return branch
        shape = (len(branch),) + (1,) * (branch.ndim - 1)
        keep = torch.rand(shape, device=branch.device) >= self.rate
        return branch * (keep / (1 - self.rate)).to(branch.dtype)

    def extra_repr(self) -> str:
        return f"rate={self.rate}"


def linear(in_features: int, out_features: int) -> nn.Linear:
    """A linear layer initialised as in the paper: truncated normal 0.02, bias 0."""
    layer = nn.Linear(in_features, out_features)
    nn.init.trunc_normal_(layer.weight, std=0.02)
    nn.init.zeros_(layer.bias)
    return layer


def classifier(in_features: int, num_classes: int) -> nn.Module:
    """The head of a network: a linear layer; Identity for an encoder, which has 0 classes."""
    return linear(in_features, num_classes) if num_classes else nn.Identity()


def drop_path_rates(highest: float, depth: int) -> list[float]:
    """One rate for each block, growing linearly from 0 to `highest`."""
    return [highest * block / max(depth - 1, 1) for block in range(depth)]
