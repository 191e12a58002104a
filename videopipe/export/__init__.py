"""Checkpoints as files for other runtimes: ONNX, and programs of `torch.export`."""
