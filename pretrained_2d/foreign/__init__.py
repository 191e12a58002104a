"""Checkpoints that others wrote: reading them, finding out who is who, adopting them."""

from pretrained_2d.foreign.adoption import Adoption, adopt
from pretrained_2d.foreign.files import TensorFile, read_tensors
from pretrained_2d.foreign.weights import ForeignReport, load_foreign

__all__ = ["Adoption", "ForeignReport", "TensorFile", "adopt", "load_foreign", "read_tensors"]
