"""Compiles loops with numba and runs them in torch's threads.

It relies on internals of numba and llvmlite that may change with their versions; `check` notices.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import numba
import numpy as np
import torch
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.caching import FunctionCache
from numba.extending import intrinsic

Array: TypeAlias = np.ndarray[Any, Any]
Team: TypeAlias = tuple[int, int]
OPTIONS: dict[str, Any] = {
    "nogil": True,
    "fastmath": {"reassoc", "contract", "nsz"},  # allows the compiler to reorder sums
    "error_model": "numpy",
}
Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
generated: Decorator = intrinsic


def check() -> None:
    """Run a small loop in threads and raise if it cannot be compiled or gives wrong numbers."""
    if numba.config.DISABLE_JIT:
        raise RuntimeError("NUMBA_DISABLE_JIT is set")
    found = np.zeros(4)
    _count(found, team())
    if list(found) != [1, 1, 1, 1]:
        raise RuntimeError(f"numba {numba.__version__} gives wrong numbers: {found}")


@cache
def _version() -> str:
    """A digest of all files here: numba reuses cached code although a called function changed."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:8]


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function; cache it beside its file or in the user's cache folder."""
    function.__qualname__ += f"_{_version()}"  # part of the name of the cached file
    loop = numba.njit(function, **OPTIONS)
    try:
        loop._cache = _Cache(function)
    except RuntimeError:  # neither place can be written
        _warn_once("numba finds no folder to keep compiled loops in")
    return loop


class _Cache(FunctionCache):  # type: ignore[misc]
    """Files of numba that are damaged or cannot be written cost time, but no call fails."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function, or None if there is no file of it that can be read."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # noqa: BLE001  (after a power failure a file holds any bytes)
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write the compiled function to its files."""
        try:
            super().save_overload(sig, data)
        except Exception as error:  # noqa: BLE001  (a full disk, or an index that is damaged)
            reason = getattr(error, "strerror", None) or error
            _warn_once(f"compiled loops cannot be kept in {self.cache_path} ({reason})")


@cache
def _warn_once(problem: str) -> None:
    warnings.warn(
        f"S4ND: {problem}, so that every process compiles them again; set NUMBA_CACHE_DIR to a "
        "folder that can be written",
        stacklevel=3,
    )


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that is inlined into the compiled functions that call it."""
    return numba.njit(function, forceinline=True, **OPTIONS)


def called(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function once for all places that call it: large ones, called rarely."""
    return numba.njit(function, **OPTIONS)


def team() -> Team:
    """The threads that run `in_parallel`: the address of OpenMP's start function or 0, the number.

    They must be torch's own. These spin on their cores while they wait for the next operation,
    which leaves no free core for the threads of another pool.
    """
    threads = torch.get_num_threads()
    return (_start_of_torch() if threads > 1 else 0), threads


@cache
def _start_of_torch() -> int:
    libraries = list((Path(torch.__file__).parent / "lib").glob("libgomp*.so*"))
    try:
        (library,) = libraries
        start = ctypes.CDLL(str(library)).GOMP_parallel
    except (ValueError, OSError, AttributeError):
        warnings.warn(
            "S4ND: torch brings no GNU OpenMP here, so that compiled loops run in one thread",
            stacklevel=3,
        )
        return 0
    return ctypes.cast(start, ctypes.c_void_p).value or 0


@generated
def in_parallel(typing: Any, team: Any, function: Any, arguments: Any) -> Any:
    """function(*arguments) in every thread of the team: they share the work by `take`.

    An exception in any of them becomes a RuntimeError of the caller.
    """
    call = function.get_call_type(typing, tuple(arguments), {})
    integer, address = ir.IntType(32), ir.IntType(8).as_pointer()

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        # Passed to the threads: the arguments, and a flag that is set after an error.
        package = ir.LiteralStructType([context.get_value_type(arguments), integer])
        code = function.dispatcher.get_compile_result(call)
        context.active_code_library.add_linking_library(code.library)
        kind = ir.FunctionType(ir.VoidType(), [address])
        name = builder.module.get_unique_name("in_parallel")
        body = ir.Function(builder.module, kind, name)
        body.linkage = "internal"
        inside = ir.IRBuilder(body.append_basic_block())
        packed = inside.bitcast(body.args[0], package.as_pointer())
        tupled = inside.load(cgutils.gep_inbounds(inside, packed, 0, 0))
        given = cgutils.unpack_tuple(inside, tupled)
        given = [_borrowed(context, inside, *each) for each in zip(call.args, given, strict=True)]
        callee = context.declare_function(builder.module, code.fndesc)
        status, _ = context.call_conv.call_function(
            inside, callee, call.return_type, call.args, given
        )
        with inside.if_then(status.is_error, likely=False):
            inside.store(integer(1), cgutils.gep_inbounds(inside, packed, 0, 1))
        inside.ret_void()
        start, threads = cgutils.unpack_tuple(builder, values[0])
        packed = cgutils.alloca_once(builder, package)
        failed = cgutils.gep_inbounds(builder, packed, 0, 1)
        builder.store(values[2], cgutils.gep_inbounds(builder, packed, 0, 0))
        builder.store(integer(0), failed)
        packed = builder.bitcast(packed, address)
        with builder.if_else(cgutils.is_null(builder, start)) as (alone, together):
            with alone:
                builder.call(body, [packed])
            with together:
                kind = ir.FunctionType(ir.VoidType(), [body.type, address, integer, integer])
                start = builder.inttoptr(start, kind.as_pointer())
                builder.call(start, [body, packed, builder.trunc(threads, integer), integer(0)])
        with builder.if_then(cgutils.is_not_null(builder, builder.load(failed)), likely=False):
            message = (
                "a compiled loop of S4ND failed in a thread, probably because memory ran out",
            )
            context.call_conv.return_user_exc(builder, RuntimeError, message)
        return context.get_dummy_value()

    return types.void(team, function, arguments), generate


def _borrowed(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """The array without its reference count, which the threads would otherwise contend for."""
    if not isinstance(kind, types.Array):
        return value
    array = context.make_array(kind)(context, builder, value)
    array.meminfo = cgutils.get_null_value(array.meminfo.type)
    return array._getvalue()


@generated
def take(_typing: Any, counter: Any) -> Any:
    """Increment counter[0] atomically; returns its old value, which no other thread gets."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        first = context.make_array(counter)(context, builder, values[0]).data
        return builder.atomic_rmw("add", first, ir.IntType(64)(1), "monotonic")

    return types.int64(counter), generate


@inlined
def _count_one_by_one(counter: Array, found: Array) -> None:
    index = take(counter)
    while index < len(found):
        found[index] += 1
        index = take(counter)


@compiled
def _count(found: Array, team: Team) -> None:
    in_parallel(team, _count_one_by_one, (np.zeros(1, np.int64), found))
