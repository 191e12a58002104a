"""S4ND: state space layers for signals of any number of axes."""

from s4nd.axis import AxisConfig
from s4nd.inflate import inflate
from s4nd.layer import S4ND, state_space_parameters
from s4nd.reference import from_reference
from s4nd.together import Call, sampled_together

__all__ = [
    "S4ND",
    "AxisConfig",
    "Call",
    "from_reference",
    "inflate",
    "sampled_together",
    "state_space_parameters",
]
