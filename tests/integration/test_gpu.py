"""Tests that need a GPU: `pytest -m gpu tests/integration/test_gpu.py`. See docs/gpus.md."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import videopipe
from pretrained_2d.networks.backbones import build
from s4nd import S4ND, AxisConfig

DEVICE = "cuda"
REPOSITORY = Path(__file__).resolve().parents[2]
TOYS = REPOSITORY / "tests" / "pretrained_2d" / "training"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
TRAIN = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[1:3]
from toy_training import network, run
import torch
if __name__ == "__main__":
    model = network(dropout=0.0, batch_norm=False)
    settings = {"mixup": 0, "cutmix": 0, "accumulation": 1, "evaluate": None, "monitor": ()}
    run(Path(sys.argv[3]), model, **settings | eval(sys.argv[4]))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
"""


def train(tmp_path: Path, out: str, launcher: tuple[str, ...] = (), **settings: object) -> Path:
    """Train the toy network in a process of its own; the folder of the last checkpoint."""
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    words = [sys.executable, *launcher, script, REPOSITORY, TOYS, tmp_path / out, repr(settings)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return tmp_path / out / "last"


def output_and_gradients(layer: S4ND, signal: Tensor) -> list[Tensor]:
    signal = signal.clone().requires_grad_()
    output = layer(signal)
    output.square().sum().backward()
    grads = [p.grad for p in layer.parameters() if p.grad is not None]
    return [t.detach().cpu() for t in (output, signal.grad, *grads)]


@pytest.mark.parametrize("engine", ["matmul", "fft"])
@pytest.mark.parametrize("sizes", [(64,), (14, 14), (4, 7, 7)])
def test_the_layer_agrees_with_the_cpu(engine: str, sizes: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    layer = S4ND(8, [AxisConfig(size) for size in sizes], engine=engine)
    signal = torch.randn(2, 8, *sizes)
    expected = output_and_gradients(layer, signal)
    layer.zero_grad()
    actual = output_and_gradients(layer.to(DEVICE), signal.to(DEVICE))
    for one, two in zip(expected, actual, strict=True):
        torch.testing.assert_close(one, two, rtol=5e-3, atol=5e-3 * float(one.abs().max()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_network_in_half_precision_is_near_float32(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    options = {"depth": 2, "width": 32, "image_size": 32, "num_classes": 10}
    network = build("isotropic", **options).to(DEVICE).eval()
    torch.nn.init.normal_(network.head.weight)
    images = torch.randn(4, 3, 32, 32, device=DEVICE)
    with torch.no_grad():
        expected = network(images)
        with torch.autocast(DEVICE, dtype=dtype):
            actual = network(images).float()
    assert (actual - expected).abs().max() < 0.05 * expected.abs().max()


def test_matrix_products_need_less_memory_than_the_fft(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "tools"))
    import bench_device
    import bench_layer

    shape, device, needed = (1, 32, 8, 28, 28), torch.device(DEVICE), {}
    for engine in ("matmul", "fft"):
        layer = bench_layer.layer_for(shape, engine).to(device)
        step = bench_layer.step_of(layer, torch.randn(shape, device=device))
        step()
        needed[engine] = bench_device.added_megabytes(step, device)
    assert needed["matmul"] < needed["fft"]


def test_the_benchmark_prints_its_tables(tmp_path: Path) -> None:
    tool, out = REPOSITORY / "tools" / "bench_layer.py", tmp_path / "layers.json"
    words = [sys.executable, tool, "--device", DEVICE, "--rounds", "3", "--json", out]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(json.loads(out.read_text())["layers"]) == 5


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_training_runs_in_every_precision(tmp_path: Path, precision: str) -> None:
    weights = load_file(train(tmp_path, precision, precision=precision) / "model.safetensors")
    assert all(bool(tensor.isfinite().all()) for tensor in weights.values())


def test_training_agrees_with_the_cpu(tmp_path: Path) -> None:
    one, two = (
        load_file(train(tmp_path, device, device=device) / "model.safetensors")
        for device in ("cpu", "auto")
    )
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, two[name], rtol=1e-2, atol=1e-2)


def test_two_gpus_equal_one(tmp_path: Path) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    folders = [train(tmp_path, "one"), train(tmp_path, "two", launcher)]
    one, two = (load_file(folder / "model.safetensors") for folder in folders)
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, two[name], rtol=1e-3, atol=1e-4)


def test_predictions_agree_with_the_cpu(
    make_tiny_model: Callable[..., Path], video_folder: Path, tmp_path: Path
) -> None:
    model = make_tiny_model(tmp_path / "model")
    rows = {}
    for device in ("cpu", DEVICE):
        found = videopipe.predict(model, video_folder, device=device, workers=1, scores=True)
        rows[device] = {row["path"]: row for row in found}
    assert rows["cpu"].keys() == rows[DEVICE].keys()
    for path, row in rows["cpu"].items():
        assert row["status"] == rows[DEVICE][path]["status"]
        if row["status"] == "ok":
            assert rows[DEVICE][path]["scores"] == pytest.approx(row["scores"], abs=1e-3)
