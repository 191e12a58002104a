"""Checkpoints of other programs: reading files, matching tensors, writing our own folders."""

from pretrained_2d.checkpoints.foreign.adoption import Adoption, adopt
from pretrained_2d.checkpoints.foreign.tensor_files.files import TensorFile, read_tensors
from pretrained_2d.checkpoints.foreign.weights import ForeignReport, load_foreign

__all__ = ["Adoption", "ForeignReport", "TensorFile", "adopt", "load_foreign", "read_tensors"]
