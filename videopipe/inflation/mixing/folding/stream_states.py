"""The states of layers between two steps of a stream, and the state of a finite kernel."""

from collections import Counter
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from videopipe.inflation.options import Padding

NextStep = Callable[[Tensor | None], tuple[Tensor, Tensor]]


class StreamStates:
    """One tensor for each call of a layer that mixes time; their shapes never change.

    A layer that is called several times on a frame has one state for each call.
    """

    def __init__(self) -> None:
        self.states: dict[tuple[nn.Module, int], Tensor] = {}
        self._calls: Counter[nn.Module] = Counter()

    def begin_step(self) -> None:
        """Count the calls of each layer from zero."""
        self._calls.clear()

    def advance(self, layer: nn.Module, next_step: NextStep) -> Tensor:
        """The output of `next_step(state) -> (output, new state)`; keeps the new state.

        The state is None at the first step of the stream.
        """
        place = (layer, self._calls[layer])
        self._calls[layer] += 1
        output, state = next_step(self.states.get(place))
        self.states[place] = state
        return output


def finite_response(
    responses: Sequence[Tensor], pending: Tensor | None, padding: Padding
) -> tuple[Tensor, Tensor]:
    """One step of a causal kernel of a few taps: (output, new pending).

    responses[l] is what the current input adds to the output l steps later. pending[i] is what
    earlier inputs add to the output i steps later; None before the first step, where the padding
    decides what the inputs before the stream were.
    """
    first, later = responses[0], responses[1:]
    if not later:
        return first, first.new_zeros(0)
    added = torch.stack(list(later))  # (taps - 1, …)
    if pending is None:
        repeated = added.flip(0).cumsum(0).flip(0)
        pending = repeated if padding == "replicate" else torch.zeros_like(added)
    moved = torch.cat((pending[1:], torch.zeros_like(pending[:1])))
    return first + pending[0], moved + added
