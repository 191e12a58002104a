"""A bottleneck with a kernel along time beside a frozen layer."""

from torch import Tensor, nn
from torch.nn import functional


class TimeAdapter(nn.Module):
    """x + up(gelu(mix(down(x)))), where `mix` convolves `width` channels along time.

    The idea is that of the ST-Adapter (Pan et al., 2022). `up` starts at zero, so that the network
    starts as the 2D network on every frame, also of a moving video.
    """

    def __init__(self, channels: int, width: int, mixing: nn.Module, *, channel_dim: int) -> None:
        super().__init__()
        self.down = nn.Linear(channels, width)
        self.mixing = mixing  # on folded tensors with their channels last
        self.up = nn.Linear(width, channels)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)
        self.channel_dim = channel_dim

    def forward(self, folded: Tensor) -> Tensor:
        """(clips × steps × parts, *rest) -> the same shape."""
        narrow = self.down(folded.movedim(self.channel_dim, -1))
        added = self.up(functional.gelu(self.mixing(narrow)))
        return folded + added.movedim(-1, self.channel_dim)
