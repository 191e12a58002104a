"""Compiling loops with numba, which brings its compiler with it, and sharing them among threads."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import numba
import numpy as np
import torch
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

Array: TypeAlias = np.ndarray[Any, Any]
Team: TypeAlias = tuple[int, int]
OPTIONS: dict[str, Any] = {
    "nogil": True,
    "fastmath": {"reassoc", "contract", "nsz"},  # sums may change their order
    "error_model": "numpy",
}
Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
_generated: Decorator = intrinsic


@cache
def _version() -> str:
    """Of all the code here: what numba keeps of a function is not renewed with those it calls."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:8]


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Machine code, kept beside the function's file or in the user's cache."""
    function.__qualname__ += f"_{_version()}"  # part of the name under which it is kept
    try:
        return numba.njit(function, cache=True, **OPTIONS)
    except RuntimeError:  # neither place can be written
        return numba.njit(function, **OPTIONS)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A part of the compiled functions that call it."""
    return numba.njit(function, forceinline=True, **OPTIONS)


def team() -> Team:
    """Who runs `in_parallel`: the address of OpenMP's start function, or 0, and its threads.

    They must be torch's own: its threads keep their cores while they wait for the next operation,
    so that others beside them would find none.
    """
    threads = torch.get_num_threads()
    return (_start_of_torch() if threads > 1 else 0), threads


@cache
def _start_of_torch() -> int:
    libraries = list((Path(torch.__file__).parent / "lib").glob("libgomp*.so*"))
    if len(libraries) != 1:
        return 0  # another OpenMP: what is asked for is done by one thread
    start = ctypes.CDLL(str(libraries[0])).GOMP_parallel
    return ctypes.cast(start, ctypes.c_void_p).value or 0


@_generated
def in_parallel(typing: Any, team: Any, function: Any, arguments: Any) -> Any:
    """function(*arguments) in every thread of the team: they share the work by `take`."""
    call = function.get_call_type(typing, tuple(arguments), {})
    integer, address = ir.IntType(32), ir.IntType(8).as_pointer()

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        code = function.dispatcher.get_compile_result(call)
        context.active_code_library.add_linking_library(code.library)
        kind = ir.FunctionType(ir.VoidType(), [address])
        name = builder.module.get_unique_name("in_parallel")
        body = ir.Function(builder.module, kind, name)
        body.linkage = "internal"
        inside = ir.IRBuilder(body.append_basic_block())
        packed = inside.bitcast(body.args[0], context.get_value_type(arguments).as_pointer())
        given = cgutils.unpack_tuple(inside, inside.load(packed))
        given = [_borrowed(context, inside, *each) for each in zip(call.args, given, strict=True)]
        callee = context.declare_function(builder.module, code.fndesc)
        context.call_conv.call_function(inside, callee, call.return_type, call.args, given)
        inside.ret_void()
        start, threads = cgutils.unpack_tuple(builder, values[0])
        packed = builder.bitcast(cgutils.alloca_once_value(builder, values[2]), address)
        with builder.if_else(cgutils.is_null(builder, start)) as (alone, together):
            with alone:
                builder.call(body, [packed])
            with together:
                kind = ir.FunctionType(ir.VoidType(), [body.type, address, integer, integer])
                start = builder.inttoptr(start, kind.as_pointer())
                builder.call(start, [body, packed, builder.trunc(threads, integer), integer(0)])
        return context.get_dummy_value()

    return types.void(team, function, arguments), generate


def _borrowed(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """An array without owner: threads that count references to it would wait for each other."""
    if not isinstance(kind, types.Array):
        return value
    array = context.make_array(kind)(context, builder, value)
    array.meminfo = cgutils.get_null_value(array.meminfo.type)
    return array._getvalue()


@_generated
def take(_typing: Any, counter: Any) -> Any:
    """What counter[0] was before it is raised by one: a number that no other thread gets."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        first = context.make_array(counter)(context, builder, values[0]).data
        return builder.atomic_rmw("add", first, ir.IntType(64)(1), "monotonic")

    return types.int64(counter), generate
