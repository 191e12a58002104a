"""Sums of products of small matrices, one for each of several channels, kept in registers.

A block holds numbers of `LANES` neighbouring channels beside each other: number k of channel l is
block[k * LANES + l]. A tile of `ROWS` x `COLUMNS` numbers of a product, for all these channels, is
summed up in vector registers. Loops that a compiler makes vectors of cannot do that: they load and
store every sum once for a few products.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba.core import cgutils, types

from s4nd.compiled.jit import Array, called, generated, inlined

# AVX-512 has 32 registers of 16 floats, other processors at most 16 of 8.
WIDE = torch.backends.cpu.get_cpu_capability() == "AVX512"
LANES, ROWS, COLUMNS = (16, 4, 4) if WIDE else (8, 2, 4)
EDGE = 4  # sizes are rounded up to a multiple of it: of ROWS and COLUMNS


@inlined
def padded(size: int) -> int:
    """The size of an axis in a block."""
    return -(-size // EDGE) * EDGE


@called
def empty_block(count: int, like: Array) -> Array:
    """Zeros: `count` numbers of every channel, from a place that vectors do not straddle."""
    whole = np.zeros((count + 8) * LANES, like.dtype)
    start = (-whole.ctypes.data % 64) // whole.itemsize
    return whole[start : start + count * LANES]


@called
def multiply(
    out: Array, of_out: tuple[int, int], left: Array, of_left: tuple[int, int],
    right: Array, of_right: tuple[int, int], shape: tuple[int, int, int], add: bool,
) -> None:  # fmt: skip
    """out[t, o] = sum over s of left[t, s] * right[s, o], or that added to what is there.

    Blocks, each with its steps from row to row and from column to column. shape: numbers of t, of o
    and of s; the first two are multiples of `EDGE`.
    """
    for t in range(0, shape[0], ROWS):
        for o in range(0, shape[1], COLUMNS):
            _tile(
                out, (t * of_out[0] + o * of_out[1], of_out[0], of_out[1]),
                left, (t * of_left[0], of_left[0], of_left[1]),
                right, (o * of_right[1], of_right[0], of_right[1]),
                shape[2], add,
            )  # fmt: skip


@generated
def _tile(
    _typing: Any, out: Any, of_out: Any, left: Any, of_left: Any, right: Any, of_right: Any,
    count: Any, add: Any,
) -> Any:  # fmt: skip
    """One tile of `multiply`; steps are (first, from row to row, from column to column)."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        number, integer = context.get_value_type(out.dtype), ir.IntType(64)
        vector, align = ir.VectorType(number, LANES), out.dtype.bitwidth // 8

        def places(kind: Any, array: Any, steps: Any) -> Any:
            data = context.make_array(kind)(context, builder, array).data
            first, of_row, of_column = cgutils.unpack_tuple(builder, steps)

            def place(row: Any, column: Any) -> Any:
                across = builder.add(builder.mul(row, of_row), builder.mul(column, of_column))
                index = builder.mul(builder.add(first, across), integer(LANES))
                pointer = builder.gep(data, [index], inbounds=True)
                return builder.bitcast(pointer, vector.as_pointer())

            return place

        to_out, to_left, to_right = (
            places(kind, *values[2 * index : 2 * index + 2])
            for index, kind in enumerate((out, left, right))
        )
        tile = [(integer(row), integer(column)) for row in range(ROWS) for column in range(COLUMNS)]
        sums = [cgutils.alloca_once_value(builder, ir.Constant(vector, None)) for _ in tile]
        for each in sums:  # in a loop of the caller, the line above runs once only
            builder.store(ir.Constant(vector, None), each)
        with builder.if_then(values[7]):
            for each, at in zip(sums, tile, strict=True):
                builder.store(builder.load(to_out(*at), align=align), each)
        with cgutils.for_range(builder, values[6]) as loop:
            a = [
                builder.load(to_left(integer(row), loop.index), align=align) for row in range(ROWS)
            ]
            b = [
                builder.load(to_right(loop.index, integer(column)), align=align)
                for column in range(COLUMNS)
            ]
            products = [builder.fmul(x, y, flags=("contract",)) for x in a for y in b]
            for each, product in zip(sums, products, strict=True):
                total = builder.fadd(builder.load(each), product, flags=("contract",))
                builder.store(total, each)
        for each, at in zip(sums, tile, strict=True):
            builder.store(builder.load(each), to_out(*at), align=align)
        return context.get_dummy_value()

    given = (out, of_out, left, of_left, right, of_right, count, add)
    return types.void(*given), generate
