from torch import Tensor, nn


class Small(nn.Module):
    """Two convolutions and a head: enough for the compiler, quick to compile."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, 2, 1)
        self.deep = nn.Conv2d(4, 4, 3, padding=1, groups=4)
        self.head = nn.Linear(4, 3)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.deep(self.conv(images).relu()).relu().mean((2, 3)))
