"""Training, averaging of weights and evaluation on a device that does not exist.

Tensors are fake, so every value that is read and every tensor on another device is an error.
"""

import copy
import warnings

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import backend_registration

from tests.pretrained_2d.networks.launches import Launches, training_step
from tests.pretrained_2d.networks.test_launches import NETWORKS


class Backend(backend_registration._DummyBackendModule):
    def get_amp_supported_dtype(self):
        return [torch.float16, torch.bfloat16]


backend_registration._setup_privateuseone_for_python_backend("other", backend_module=Backend())
warnings.filterwarnings("ignore", message="Accessing the data pointer of FakeTensor")

for name in ("convnext of s4nd", "vit", "isotropic 3d"):
    make, sizes = NETWORKS[name]
    with torch.device("meta"):
        network = make()
    with FakeTensorMode(allow_non_fake_inputs=True):
        network.to_empty(device="other")
        signal = torch.empty(2, 3, *sizes, device="other")
        target = torch.empty(2, dtype=torch.long, device="other")
        optimiser = torch.optim.AdamW(network.parameters(), foreach=True)
        average = copy.deepcopy(network)
        with Launches():
            training_step(network, signal, target, optimiser)
            with torch.no_grad():
                old, new = list(average.parameters()), list(network.parameters())
                torch._foreach_lerp_(old, new, 0.1)
                assert average.eval()(signal).device.type == "other"
    print("ok")
