"""Evaluate the part of a traced graph that does not depend on its input.

An S4ND layer computes its kernels from its parameters, and so do other layers that mix time. In
evaluation these kernels are constants. Folding works on the graph, whatever its layers are:
each value that depends on parameters only is computed once and stored in place of the parameters.
"""

from collections.abc import Iterable
from functools import reduce
from typing import Any

import torch
from torch import Tensor, fx

# Left in the graph: evaluated, these would store the same numbers many times.
_EXPANDING = {torch.ops.aten.expand.default}


def fold_constants(module: fx.GraphModule) -> fx.GraphModule:
    """The same graph with constants in place of every computation on parameters and buffers.

    The module must be functional, as `ExportedProgram.run_decompositions` returns it. Operators
    that draw random numbers are not folded.
    """
    constant = _constant_nodes(module.graph)
    kept = {node for node in constant if _computes(node) and set(node.users) - constant}
    for place, (node, value) in enumerate(_evaluate(module, constant, kept)):
        name = f"folded_{place}"
        module.register_buffer(name, value.detach().clone(memory_format=torch.contiguous_format))
        with module.graph.inserting_before(node):
            new = module.graph.get_attr(name)
        new.meta = dict(node.meta)
        node.replace_all_uses_with(new, delete_user_cb=lambda user: user not in constant)
    for node in reversed(module.graph.nodes):
        if node in constant and not node.users:
            module.graph.erase_node(node)
    return fx.GraphModule(module, module.graph)  # copies only what the graph refers to


def _constant_nodes(graph: fx.Graph) -> set[fx.Node]:
    constant: set[fx.Node] = set()
    for node in graph.nodes:
        is_stored = node.op == "get_attr"
        if is_stored or (_computes(node) and constant.issuperset(node.all_input_nodes)):
            constant.add(node)
    for node in reversed(graph.nodes):
        if node.target in _EXPANDING and set(node.users) - constant:
            constant.discard(node)
    return constant


def _computes(node: fx.Node) -> bool:
    """Whether the node calls a function that returns the same for the same arguments."""
    tags = getattr(node.target, "tags", ())
    return node.op == "call_function" and torch.Tag.nondeterministic_seeded not in tags


@torch.no_grad()
def _evaluate(
    module: fx.GraphModule, constant: set[fx.Node], kept: set[fx.Node]
) -> list[tuple[fx.Node, Tensor]]:
    """The values of the nodes in `kept`; other values are freed after their last use."""
    order = [node for node in module.graph.nodes if node in constant]
    last_use = {used: node for node in order for used in node.all_input_nodes}
    values: dict[fx.Node, Any] = {}
    for node in order:
        if node.op == "get_attr":
            values[node] = reduce(getattr, str(node.target).split("."), module)
            continue
        args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
        assert callable(node.target)
        values[node] = node.target(*args, **kwargs)
        _free(values, (used for used in node.all_input_nodes if last_use[used] is node), kept)
    return [(node, values[node]) for node in order if node in kept]


def _free(values: dict[fx.Node, Any], nodes: Iterable[fx.Node], kept: set[fx.Node]) -> None:
    for node in nodes:
        if node not in kept:
            del values[node]
