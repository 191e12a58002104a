"""Networks of the paper, and those of timm and torchvision behind the same interface."""
