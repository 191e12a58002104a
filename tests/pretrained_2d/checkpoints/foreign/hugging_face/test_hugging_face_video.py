"""Video networks of transformers are adopted as they are."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pretrained_2d.checkpoints.folder import load_checkpoint
from pretrained_2d.checkpoints.foreign import Adoption, adopt
from pretrained_2d.errors import CheckpointError, PretrainedError
from pretrained_2d.networks.backbones import build

transformers = pytest.importorskip("transformers")

FRAMES, PIXELS = 4, 32
TOKENS: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48,
    "image_size": PIXELS, "num_frames": FRAMES,
}  # fmt: skip
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "videomae": ("VideoMAE", {**TOKENS, "patch_size": 8}),
    "timesformer": ("Timesformer", {**TOKENS, "patch_size": 8}),
    "vivit": ("Vivit", {**TOKENS, "tubelet_size": [2, 8, 8]}),
    "vjepa2": (
        "VJEPA2",
        {
            "hidden_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4, "mlp_ratio": 2,
            "crop_size": PIXELS, "patch_size": 8, "frames_per_clip": FRAMES, "tubelet_size": 2,
            "pred_hidden_size": 48, "pred_num_hidden_layers": 1, "pred_num_attention_heads": 4,
        },
    ),
}  # fmt: skip


def model_of(kind: str, what: str) -> Any:
    name, values = MODELS[kind]
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**values, num_labels=3)
    return getattr(transformers, f"{name}{what}")(config).eval()


def adopted(kind: str, what: str, folder: Path) -> tuple[Any, ...]:
    """Card, report and network of an adopted model, a clip, and what transformers makes of it."""
    model = model_of(kind, what)
    model.save_pretrained(folder / "theirs")
    card, report = adopt(Adoption(checkpoint=folder / "theirs"), folder / "ours")
    clip = torch.randn(2, 3, FRAMES, PIXELS, PIXELS)
    argument = "pixel_values_videos" if kind == "vjepa2" else "pixel_values"
    with torch.no_grad():
        output = model(**{argument: clip.transpose(1, 2)})
    return card, report, load_checkpoint(folder / "ours")[0], clip, output


@pytest.mark.parametrize("kind", MODELS)
def test_a_classifier_has_the_numbers_of_transformers(kind: str, tmp_path: Path) -> None:
    card, report, network, clip, output = adopted(kind, "ForVideoClassification", tmp_path)
    with torch.no_grad():
        expected = output.logits
        torch.testing.assert_close(network(clip), expected, rtol=1e-4, atol=1e-5)
        features = network.embed(clip)
        torch.testing.assert_close(network.head(features), expected, rtol=1e-4, atol=1e-5)
    assert (card.architecture, card.ndim, card.num_frames) == (f"transformers/{kind}", 3, FRAMES)
    assert card.preprocessing.image_size == PIXELS
    assert not report.new


@pytest.mark.parametrize("kind", MODELS)
def test_an_encoder_gives_features(kind: str, tmp_path: Path) -> None:
    card, _, network, clip, output = adopted(kind, "Model", tmp_path)
    with torch.no_grad():
        tokens = output.last_hidden_state
        first = kind in ("timesformer", "vivit")
        expected = tokens[:, 0] if first else tokens.mean(1)
        torch.testing.assert_close(network.embed(clip), expected, rtol=1e-4, atol=1e-5)
        assert torch.equal(network(clip), network.embed(clip))
    assert card.options["num_classes"] == 0


def test_wrong_clips_names_and_options_are_named() -> None:
    network = build("transformers/videomae", num_classes=2, **MODELS["videomae"][1])
    with pytest.raises(ValueError, match="VideoMAE takes clips of 4 frames"):
        network(torch.randn(1, 3, 5, PIXELS, PIXELS))
    with pytest.raises(PretrainedError, match="there are videomae, timesformer, vivit, vjepa2"):
        build("transformers/bert", num_classes=2)
    with pytest.raises(PretrainedError, match="does not take the option 'auto_map'"):
        build("transformers/videomae", auto_map="evil")


@pytest.mark.parametrize("kind", MODELS)
def test_an_encoder_with_a_head_on_its_pooled_tokens(kind: str) -> None:
    encoder = build(f"transformers/{kind}", num_classes=0, **MODELS[kind][1]).eval()
    network = build(f"transformers/{kind}", num_classes=5, pooled_head=True, **MODELS[kind][1])
    network.eval().load_state_dict(encoder.state_dict(), strict=False)
    clip = torch.randn(2, 3, FRAMES, PIXELS, PIXELS)
    logits = network(clip)
    torch.testing.assert_close(network.embed(clip), encoder.embed(clip))
    torch.testing.assert_close(logits, network.head(encoder.embed(clip)))
    logits.square().sum().backward()
    trained = [(name, p) for name, p in network.named_parameters() if p.requires_grad]
    assert {name for name, p in trained if p.grad is None} == set()
    assert any(name.startswith("network.") for name, _ in trained)


@pytest.mark.parametrize("kind", MODELS)
def test_a_classifier_without_its_head_is_the_encoder(kind: str, tmp_path: Path) -> None:
    model = model_of(kind, "ForVideoClassification")
    model.save_pretrained(tmp_path / "theirs")
    request = Adoption(checkpoint=tmp_path / "theirs", head="drop")
    card, report = adopt(request, tmp_path / "ours")
    network, _ = load_checkpoint(tmp_path / "ours")
    clip = torch.randn(1, 3, FRAMES, PIXELS, PIXELS)
    body = model.base_model.state_dict()
    assert all(torch.equal(network.network.state_dict()[name], body[name]) for name in body)
    assert card.is_encoder
    assert all(name.startswith("network.pooler.") for name in report.new)
    assert network(clip).shape == (1, MODELS[kind][1]["hidden_size"])


def test_frames_of_a_clip_are_those_of_the_network(tmp_path: Path) -> None:
    model_of("videomae", "Model").save_pretrained(tmp_path)
    request = Adoption(checkpoint=tmp_path, num_frames=7)
    with pytest.raises(CheckpointError, match=r"num_frames is 7, but .* takes clips of 4 frames"):
        adopt(request, tmp_path / "ours")
    card, _ = adopt(replace(request, num_frames=4, clip_seconds=1.5), tmp_path / "ours")
    assert (card.num_frames, card.clip_seconds) == (4, 1.5)


def test_labels_for_an_encoder_name_the_stage_that_helps(tmp_path: Path) -> None:
    model_of("videomae", "Model").save_pretrained(tmp_path)
    request = Adoption(checkpoint=tmp_path, labels=("a", "b"))
    with pytest.raises(CheckpointError, match="finetune and probe give it a head"):
        adopt(request, tmp_path / "ours")
