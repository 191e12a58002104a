"""Exported files, opened by their runtimes without videopipe."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
from pretrained_2d.checkpoints.folder import save_checkpoint
from pretrained_2d.networks.backbones import build
from tests.videopipe.export.conftest import draw
from videopipe.export.checkpoint_export import description_path, export_checkpoint
from videopipe.export.clip_graph import shapes_of
from videopipe.export.file_formats import OPSET
from videopipe.models import load_model

METHODS = ("none", "i3d", "s3d", "center", "s4nd", "shift", "adapter", "attention")


def run_onnx(path: Path, batch: np.ndarray) -> np.ndarray:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (logits,) = session.run(None, {session.get_inputs()[0].name: batch})
    return logits


def frames(card: ModelCard, count: int) -> Tensor:
    """uint8 (count, channels, time, height, width), noise."""
    size = card.preprocessing.image_size
    shape = (count, 3, card.num_frames or 1, size, size)
    return torch.randint(0, 256, shape, dtype=torch.uint8)


def expected_logits(folder: Path, clips: Tensor) -> np.ndarray:
    """The network itself, with its card's mean and std applied by hand."""
    network, card = load_model(folder)
    mean, std = (np.array(values) for values in (card.preprocessing.mean, card.preprocessing.std))
    pixels = clips.permute(0, 2, 3, 4, 1).numpy() / 255
    signal = torch.from_numpy((pixels - mean) / std).float().permute(0, 4, 1, 2, 3)
    with torch.no_grad():
        return network(signal if card.ndim == 3 else signal[:, :, 0]).numpy()


def assert_close(actual: np.ndarray, expected: np.ndarray) -> None:
    assert actual.shape == expected.shape
    assert np.abs(actual - expected).max() <= 1e-4 * np.abs(expected).max()
    assert len({tuple(row) for row in expected.round(6)}) == len(expected), "clips must differ"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with one S4ND layer over three axes: tracing it is quick."""
    torch.manual_seed(0)
    options = {"depth": 1, "width": 8, "image_size": 16, "num_frames": 4, "num_classes": 3}
    card = ModelCard(
        architecture="isotropic",
        options=options,
        ndim=3,
        labels=("x", "y", "z"),
        preprocessing=Preprocessing(image_size=16, resize=18),
        num_frames=4,
        clip_seconds=0.5,
    )
    network = build("isotropic", ndim=3, **options)
    torch.nn.init.normal_(network.head.weight)
    folder = tmp_path_factory.mktemp("model") / "small"
    save_checkpoint(folder, network, card)
    return folder


@pytest.mark.slow
def test_onnx_takes_uint8_frames_in_batches_of_any_size(small: Path, tmp_path: Path) -> None:
    import onnx

    out = tmp_path / "new folder" / "model.onnx"
    report = export_checkpoint(small, out, "onnx", input_type="uint8")
    assert report.agreement.holds
    assert report.agreement.same_top1 == report.agreement.num_clips == 4
    clips = frames(load_model(small)[1], 5)
    expected = expected_logits(small, clips)
    channels_last = clips.permute(0, 2, 3, 4, 1).contiguous().numpy()
    for count in (1, 2, 5):
        assert_close(run_onnx(out, channels_last[:count]), expected[:count])
    model = onnx.load(out)
    assert [entry.version for entry in model.opset_import if entry.domain == ""] == [OPSET]
    inside = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
    beside = json.loads(description_path(out).read_text(encoding="utf-8"))
    assert inside.items() <= beside.items()
    assert inside["labels"] == ["x", "y", "z"]
    assert inside["preprocessing"]["resize"] == 18
    assert inside["input"]["shape"] == ["batch", 4, 16, 16, 3]
    assert inside["input"]["axes"] == ["batch", "time", "height", "width", "channels"]
    assert beside["agreement"]["difference"] <= 1e-4
    assert {path.name for path in out.parent.iterdir()} == {"model.onnx", "model.onnx.json"}


@pytest.fixture(scope="module")
def program_file(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("exported") / "model.pt2"
    export_checkpoint(small, out, "pt2")
    return out


def test_pt2_is_a_program_of_torch_alone(small: Path, program_file: Path) -> None:
    extra = {"videopipe.json": ""}
    program = torch.export.load(program_file, extra_files=extra)
    assert json.loads(extra["videopipe.json"])["labels"] == ["x", "y", "z"]
    card = load_model(small)[1]
    clips = frames(card, 3)
    signal = card.preprocessing.normalize(clips)
    for count in (1, 3):
        logits = program.module()(signal[:count]).detach().numpy()
        assert_close(logits, expected_logits(small, clips[:count]))


def test_kernels_are_frozen(program_file: Path) -> None:
    """No parameter of a state space and no complex number is left; tensors have five dimensions."""
    program = torch.export.load(program_file)
    assert shapes_of(program).largest_rank == 5
    assert not [name for name in program.state_dict if "log_dt" in name or name.endswith(".C")]
    targets = {str(node.target) for node in program.graph.nodes}
    assert not [name for name in targets if "complex" in name or "fft" in name or "s4nd" in name]


@pytest.mark.slow
def test_a_fixed_batch_size_is_part_of_the_file(tiny_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.onnx"
    report = export_checkpoint(tiny_model, out, "onnx", batch_size=3)
    assert report.description["input"]["shape"] == [3, 3, 4, 32, 32]
    assert report.agreement.num_clips == 4  # the last batch is filled up
    with pytest.raises(Exception, match="invalid dimensions"):
        run_onnx(out, np.zeros((2, 3, 4, 32, 32), np.float32))


@pytest.mark.slow
def test_an_image_network_takes_images(
    make_tiny_model: Callable[..., Path], tmp_path: Path
) -> None:
    folder = make_tiny_model(tmp_path / "2d", ndim=2)
    out = tmp_path / "model.onnx"
    report = export_checkpoint(folder, out, "onnx")
    assert report.description["input"]["name"] == "images"
    card = load_model(folder)[1]
    clips = frames(card, 2)
    signal = card.preprocessing.normalize(clips[:, :, 0]).numpy()
    assert_close(run_onnx(out, signal), expected_logits(folder, clips))


@pytest.mark.slow
def test_it_is_compared_on_real_videos(
    tiny_model: Path, video_folder: Path, tmp_path: Path
) -> None:
    videos = [str(video_folder / "part0" / f"video0{number}.mp4") for number in (0, 3)]
    report = export_checkpoint(tiny_model, tmp_path / "m.pt2", "pt2", videos=videos)
    assert report.agreement.num_clips == 2
    assert report.agreement.source == "real clips (video00.mp4, video03.mp4)"


@pytest.mark.slow
def test_folded_networks_have_no_3d_convolution(
    folded: Callable[..., Path], tmp_path: Path
) -> None:
    import onnx

    folder = folded("i3d")
    report = export_checkpoint(folder, tmp_path / "m.onnx", "onnx", input_type="uint8")
    assert report.description["convolutions_3d"] == 0
    assert report.description["largest_rank"] <= 5
    assert report.description["labels"] == ["läuft", "steht", "springt"]
    clips = frames(load_model(folder)[1], 3)
    graph = onnx.load(tmp_path / "m.onnx").graph
    ranks = {tensor.name: len(tensor.dims) for tensor in graph.initializer}
    kernels = [ranks[node.input[1]] for node in graph.node if node.op_type == "Conv"]
    assert set(kernels) == {4}
    logits = run_onnx(tmp_path / "m.onnx", clips.permute(0, 2, 3, 4, 1).contiguous().numpy())
    assert_close(logits, expected_logits(folder, clips))


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["timm/test_resnet", "timm/test_vit"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_exported(
    folded: Callable[..., Path], tmp_path: Path, method: str, architecture: str
) -> None:
    folder = folded(method, architecture)
    out = tmp_path / "m.onnx"
    report = export_checkpoint(folder, out, "onnx")
    assert report.description["largest_rank"] <= 5
    assert report.description["convolutions_3d"] == 0
    card = load_model(folder)[1]
    clips = frames(card, 3)
    signal = card.preprocessing.normalize(clips).numpy()
    assert_close(run_onnx(out, signal), expected_logits(folder, clips))
    assert_close(run_onnx(out, signal[:1]), expected_logits(folder, clips[:1]))


@pytest.mark.slow
@pytest.mark.parametrize("head", ["mean", "attentive", "conv", "s4nd"])
def test_probed_networks_are_exported(
    make_tiny_model: Callable[..., Path], tmp_path: Path, head: str
) -> None:
    from dataclasses import replace

    from videopipe.models import build_any
    from videopipe.probing.network import feature_shape, probe_entry
    from videopipe.probing.probe_config import HeadConfig

    network, card = load_model(make_tiny_model(tmp_path / "2d", ndim=2))
    entry = probe_entry(feature_shape(network, card, 6), HeadConfig(head=head))
    card = replace(card, ndim=3, num_frames=6, clip_seconds=0.5, probe=entry)
    torch.manual_seed(1)
    probed = build_any(card)
    torch.nn.init.normal_(probed.head.weight)
    save_checkpoint(tmp_path / "probe", probed, card)
    export_checkpoint(tmp_path / "probe", tmp_path / "m.onnx", "onnx")
    clips = frames(card, 3)
    logits = run_onnx(tmp_path / "m.onnx", card.preprocessing.normalize(clips).numpy())
    assert_close(logits, expected_logits(tmp_path / "probe", clips))


VIDEO = {
    "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48,
    "image_size": 16, "num_frames": 4,
}  # fmt: skip
TRANSFORMERS = {
    "videomae": {**VIDEO, "patch_size": 8},
    "timesformer": {**VIDEO, "patch_size": 8},
    "vivit": {**VIDEO, "tubelet_size": [2, 8, 8]},
    "vjepa2": {
        "hidden_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4, "mlp_ratio": 2,
        "crop_size": 16, "patch_size": 8, "frames_per_clip": 4, "tubelet_size": 2,
        "pred_hidden_size": 48, "pred_num_hidden_layers": 1, "pred_num_attention_heads": 4,
    },
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", TRANSFORMERS)
def test_video_networks_of_transformers_are_exported(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    options = {"num_classes": 3, **TRANSFORMERS[kind]}
    card = ModelCard(
        architecture=f"transformers/{kind}",
        options=options,
        ndim=3,
        preprocessing=Preprocessing(image_size=16),
        num_frames=4,
        clip_seconds=0.5,
    )
    torch.manual_seed(0)
    network = build(card.architecture, **options)
    draw(network)
    save_checkpoint(tmp_path / "model", network, card)
    export_checkpoint(tmp_path / "model", tmp_path / "m.onnx", "onnx")
    clips = frames(card, 3)
    logits = run_onnx(tmp_path / "m.onnx", card.preprocessing.normalize(clips).numpy())
    assert_close(logits, expected_logits(tmp_path / "model", clips))


def test_a_pt2_file_names_no_path_of_this_machine(program_file: Path) -> None:
    archive = zipfile.ZipFile(program_file)
    text = b"".join(archive.read(name) for name in archive.namelist() if name.endswith(".json"))
    assert b"site-packages" not in text
    assert str(Path(__file__).parents[3]).encode() not in text
