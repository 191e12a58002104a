"""Networks of timm, torchvision and transformers behind the interface of our own."""
