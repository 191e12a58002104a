"""The compiled loops as operators of `torch.library`, each with its gradient and its fake form.

The fake form gives shape, dtype and strides of the results, for tracing. A gradient is an operator
too, so that a traced backward pass does not look inside. The loops are loaded at the first call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from s4nd.compiled.memory_order import channels_lie_last, empty_like, empty_with_leading_channels


def _operator(name: str) -> Callable[[Callable[..., Any]], Any]:
    return torch.library.custom_op(f"s4nd::{name}", mutates_args=(), device_types="cpu")


def _refuse_second_derivative(*_: Any) -> NoReturn:
    raise RuntimeError(
        "the compiled form of S4ND has no second derivatives; compute forward and backward inside "
        "`with s4nd.compiled.disabled():`"
    )


@_operator("rank_one_taps")
def _taps(
    parameters: Sequence[Tensor], rate: float, period: int, length: int, directions: int
) -> tuple[Tensor, Tensor]:
    from s4nd.compiled import rank_one

    return rank_one.forward(parameters, rate, period, length, directions)


def _fake_taps(
    parameters: Sequence[Tensor], _rate: float, period: int, length: int, directions: int
) -> tuple[Tensor, Tensor]:
    c = parameters[-1]
    kernels, channels = c.shape[:2]
    sums = c.new_empty((channels, period // 2, kernels + 1, 4), dtype=torch.complex128)
    return c.new_empty((kernels // directions, channels, 2 * length)), sums


@_operator("rank_one_taps_backward")
def _taps_backward(
    of_taps: Tensor, sums: Tensor, parameters: Sequence[Tensor],
    rate: float, period: int, length: int, directions: int,
) -> list[Tensor]:  # fmt: skip
    from s4nd.compiled import rank_one

    return rank_one.backward(of_taps, sums, parameters, rate, period, length, directions)


def _fake_taps_backward(
    _of_taps: Tensor, _sums: Tensor, parameters: Sequence[Tensor], *_: object
) -> list[Tensor]:
    return [torch.empty_like(x, memory_format=torch.contiguous_format) for x in parameters]


def _save_taps(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.set_materialize_grads(False)  # the sums have no gradient
    ctx.save_for_backward(output[1], *inputs[0])
    ctx.numbers = inputs[1:]


def _taps_autograd(ctx: Any, of_taps: Tensor | None, _of_sums: Tensor) -> tuple[Any, ...]:
    sums, *parameters = ctx.saved_tensors
    if of_taps is None:
        return [None] * len(parameters), None, None, None, None
    return _taps_backward(of_taps, sums, parameters, *ctx.numbers), None, None, None, None


_taps.register_fake(_fake_taps)
_taps.register_autograd(_taps_autograd, setup_context=_save_taps)
_taps_backward.register_fake(_fake_taps_backward)
_taps_backward.register_autograd(_refuse_second_derivative)


def rank_one_taps(
    parameters: Sequence[Tensor], *, rate: float, period: int, length: int, directions: int
) -> Tensor:
    """Taps (outputs, H, 2 length), lag 0 at index `length`, of an axis with one column of P.

    parameters, of one dtype: log_dt (H, 1), A_real and A_imag (S, n), B and P (1, S, n, 2),
    C (directions outputs, H, n, 2). Letters as in `s4nd.kernels.low_rank`.
    """
    taps: Tensor = _taps(parameters, rate, period, length, directions)[0]
    return taps


@_operator("toeplitz")
def _toeplitz(taps: Tensor, size: int) -> Tensor:
    from s4nd.compiled import toeplitz

    return toeplitz.forward(taps, size)


def _fake_toeplitz(taps: Tensor, size: int) -> Tensor:
    return taps.new_empty((*taps.shape[:-1], size, size))


@_operator("toeplitz_backward")
def _toeplitz_backward(grad: Tensor, lags: int) -> Tensor:
    from s4nd.compiled import toeplitz

    return toeplitz.backward(grad, lags)


def _fake_toeplitz_backward(grad: Tensor, lags: int) -> Tensor:
    return grad.new_empty((*grad.shape[:-2], lags))


def _save_toeplitz(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG001
    ctx.lags = inputs[0].shape[-1]


def _toeplitz_autograd(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
    return _toeplitz_backward(grad, ctx.lags), None


_toeplitz.register_fake(_fake_toeplitz)
_toeplitz.register_autograd(_toeplitz_autograd, setup_context=_save_toeplitz)
_toeplitz_backward.register_fake(_fake_toeplitz_backward)
_toeplitz_backward.register_autograd(_refuse_second_derivative)


def toeplitz_matrices(taps: Tensor, size: int) -> Tensor:
    """taps (..., 2 L), lag 0 at index L -> T[i, j] = tap of lag i - j, 0 beyond: (..., n, n)."""
    matrices: Tensor = _toeplitz(taps, size)
    return matrices


@_operator("separable_product")
def _product(
    signal: Tensor, skip: Tensor, matrices: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    from s4nd.compiled import products

    return products.forward(signal, skip, matrices)


def _fake_product(
    signal: Tensor, _skip: Tensor, matrices: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    batch, channels, *others, before, last = signal.shape
    axes, kept = [before, *others], [signal.new_empty((channels, before, *others, batch, last))]
    for _ in matrices[1:]:
        kept.append(signal.new_empty((channels, *axes, batch, last)))
        axes = [axes[-1], *axes[:-1]]
    if channels_lie_last(signal):
        return empty_like(signal), kept
    return empty_with_leading_channels(signal), kept


@_operator("separable_product_backward")
def _product_backward(
    grad: Tensor, skip: Tensor, kept: Sequence[Tensor], matrices: Sequence[Tensor], of_signal: bool
) -> tuple[Tensor, Tensor, list[Tensor]]:
    from s4nd.compiled import products

    return products.backward(grad, skip, kept, matrices, of_signal=of_signal)


def _fake_product_backward(
    grad: Tensor, skip: Tensor, _kept: Sequence[Tensor], matrices: Sequence[Tensor], of_signal: bool
) -> tuple[Tensor, Tensor, list[Tensor]]:
    g_signal = empty_like(grad) if of_signal else grad.new_empty(0)
    return g_signal, skip.new_empty(skip.shape), [m.new_empty(m.shape) for m in matrices]


def _save_product(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, list[Tensor]]) -> None:
    ctx.set_materialize_grads(False)  # the saved tensors have no gradient
    ctx.save_for_backward(inputs[1], *output[1], *inputs[2])


def _product_autograd(ctx: Any, grad: Tensor | None, _of_kept: list[Tensor]) -> tuple[Any, ...]:
    skip, *saved = ctx.saved_tensors
    kept, matrices = saved[: len(saved) // 2], saved[len(saved) // 2 :]
    if grad is None:  # nothing depends on the output
        return None, None, [None] * len(matrices)
    of_signal = ctx.needs_input_grad[0]
    g_signal, *others = _product_backward(grad, skip, kept, matrices, of_signal)
    return g_signal if of_signal else None, *others


_product.register_fake(_fake_product)
_product.register_autograd(_product_autograd, setup_context=_save_product)
_product_backward.register_fake(_fake_product_backward)
_product_backward.register_autograd(_refuse_second_derivative)


@_operator("plane_product")
def _plane_product(signal: Tensor, skip: Tensor, left: Tensor, right: Tensor) -> Tensor:
    from s4nd.compiled import planes

    return planes.forward(signal, skip, left, right)


def _fake_plane_product(signal: Tensor, *_: Tensor) -> Tensor:
    return empty_like(signal)


@_operator("plane_product_backward")
def _plane_product_backward(
    grad: Tensor, signal: Tensor, skip: Tensor, left: Tensor, right: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    from s4nd.compiled import planes

    return planes.backward(grad, signal, skip, left, right)


def _fake_plane_product_backward(_grad: Tensor, signal: Tensor, *others: Tensor) -> tuple[Any, ...]:
    return empty_like(signal), *(x.new_empty(x.shape) for x in others)


def _save_inputs(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:  # noqa: ARG001
    ctx.save_for_backward(*inputs)


def _plane_product_autograd(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    gradients: tuple[Any, ...] = _plane_product_backward(grad, *ctx.saved_tensors)
    return gradients


_plane_product.register_fake(_fake_plane_product)
_plane_product.register_autograd(_plane_product_autograd, setup_context=_save_inputs)
_plane_product_backward.register_fake(_fake_plane_product_backward)
_plane_product_backward.register_autograd(_refuse_second_derivative)

# Of planes that are multiplied inside the cache: channels come in groups of 16 (`tiles.LANES`, or
# two of them), and some ten blocks of 16 channels of a plane fit into a cache of 1 or 2 MB.
CHANNEL_GROUP, LARGEST_PLANE = 16, 64 * 64


def separable_product(signal: Tensor, skip: Tensor, matrices: Sequence[Tensor]) -> Tensor:
    """The product with one matrix per axis plus the skip, shaped like the signal.

    signal (batch, channels, *axes), two axes or more; skip (channels,); matrices (channels, size,
    size), in the order of the axes.
    """
    channels, *axes = signal.shape[1:]
    if len(axes) == 2 and channels % CHANNEL_GROUP == 0 and axes[0] * axes[1] <= LARGEST_PLANE:
        product: Tensor = _plane_product(signal, skip, *matrices)
        return product
    y: Tensor = _product(signal, skip, matrices)[0]
    return y


@_operator("step_product")
def _step_product(matrix: Tensor, signal: Tensor) -> Tensor:
    from s4nd.compiled import steps

    return steps.forward(matrix, signal)


def _fake_step_product(_matrix: Tensor, signal: Tensor) -> Tensor:
    return torch.empty_like(signal, memory_format=torch.contiguous_format)


@_operator("step_product_backward")
def _step_product_backward(
    grad: Tensor, matrix: Tensor, signal: Tensor, of_matrix: bool, of_signal: bool
) -> tuple[Tensor, Tensor]:
    from s4nd.compiled import steps

    return steps.backward(grad, matrix, signal, of_matrix=of_matrix, of_signal=of_signal)


def _fake_step_product_backward(
    grad: Tensor, matrix: Tensor, signal: Tensor, of_matrix: bool, of_signal: bool
) -> tuple[Tensor, Tensor]:
    g_signal = grad.new_empty(signal.shape if of_signal else 0)
    return matrix.new_empty(matrix.shape if of_matrix else 0), g_signal


def _step_product_autograd(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
    of_matrix, of_signal = ctx.needs_input_grad
    found = _step_product_backward(grad, *ctx.saved_tensors, of_matrix, of_signal)
    return found[0] if of_matrix else None, found[1] if of_signal else None


_step_product.register_fake(_fake_step_product)
_step_product.register_autograd(_step_product_autograd, setup_context=_save_inputs)
_step_product_backward.register_fake(_fake_step_product_backward)
_step_product_backward.register_autograd(_refuse_second_derivative)


def step_product(matrix: Tensor, signal: Tensor) -> Tensor:
    """The product along steps with one matrix per channel, contiguous.

    matrix (channels, steps, steps); signal (clips, steps, places, channels), of the same dtype.
    """
    y: Tensor = _step_product(matrix, signal)
    return y
