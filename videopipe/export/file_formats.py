"""The formats of an exported file: how each is written, described, and run again."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.export import ExportedProgram

from videopipe.export.clip_graph import TRACING_ERRORS, ExportError, first_lines

FileFormat = Literal["onnx", "pt2"]
Run = Callable[[Tensor], Tensor]
OPSET = 20  # of ONNX
ONNX_LIBRARIES = ("onnx", "onnxruntime", "onnxscript")
LARGEST_ONNX_BYTES = 2_000_000_000  # of a single file
DESCRIPTION = "videopipe.json"  # inside a pt2 file


def check_format(format: FileFormat) -> None:
    """Raise ExportError when a library that the format needs is not installed."""
    missing = [name for name in ONNX_LIBRARIES if find_spec(name) is None]
    if format == "onnx" and missing:
        raise ExportError(
            f"--format onnx needs {', '.join(missing)}: pip install 'videopipe[export]' "
            "(--format pt2 needs torch only)"
        )


def write_program(
    format: FileFormat,
    program: ExportedProgram,
    path: Path,
    names: tuple[str, str],
    description: Mapping[str, Any],
) -> dict[str, int]:
    """Write the file with its description inside; returns how often it uses each operator.

    names: of the input and of the output.
    """
    if format == "onnx":
        return _write_onnx(program, path, names, description)
    torch.export.save(program, path, extra_files={DESCRIPTION: json.dumps(description)})
    nodes = (node for node in program.graph.nodes if node.op == "call_function")
    return dict(Counter(getattr(node.target, "__name__", str(node.target)) for node in nodes))


def load_program(format: FileFormat, path: Path) -> Run:
    """A function that runs the file on a CPU: input tensor -> logits or features."""
    return _load_onnx(path) if format == "onnx" else _load_pt2(path)


def _write_onnx(
    program: ExportedProgram, path: Path, names: tuple[str, str], description: Mapping[str, Any]
) -> dict[str, int]:
    import onnx

    size = sum(tensor.numel() * tensor.element_size() for tensor in program.state_dict.values())
    if size > LARGEST_ONNX_BYTES:
        raise ExportError(
            f"the weights take {size / 1e9:.1f} GB, and an ONNX file holds 2 GB; use --format pt2"
        )
    try:
        converted = torch.onnx.export(
            program,
            input_names=names[:1],
            output_names=names[1:],
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    except TRACING_ERRORS as error:
        raise ExportError(
            f"torch.onnx cannot convert this network: {first_lines(error.__cause__ or error)}; "
            "--format pt2 may work"
        ) from error
    assert converted is not None
    model = converted.model_proto
    _clean(model.graph)
    model.producer_name = "videopipe"
    content = {name: json.dumps(value, ensure_ascii=False) for name, value in description.items()}
    onnx.helper.set_model_props(model, content)
    onnx.checker.check_model(model)
    onnx.save_model(model, path)
    return dict(Counter(node.op_type for node in model.graph.node))


def _clean(graph: Any) -> None:
    """Name the dynamic dimension `batch`; remove inferred shapes and the metadata of tracing."""
    del graph.value_info[:]
    for item in (*graph.node, *graph.input, *graph.output, graph):
        del item.metadata_props[:]
    for value in (*graph.input, *graph.output):
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param:
                dimension.dim_param = "batch"


def _load_onnx(path: Path) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors only
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name

    def run(batch: Tensor) -> Tensor:
        (output,) = session.run(None, {name: batch.numpy()})
        return torch.from_numpy(output)

    return run


def _load_pt2(path: Path) -> Run:
    module = torch.export.load(path).module()

    def run(batch: Tensor) -> Tensor:
        with torch.inference_mode():
            return module(batch)

    return run
