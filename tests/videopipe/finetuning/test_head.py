"""A head is kept if it fits; a new one starts small, and no other parameter changes."""

from dataclasses import replace

import pytest
import torch

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.networks.backbones import build
from videopipe.finetuning.head import head_parameters, with_head_for
from videopipe.models import build_any, num_outputs

SMALL_VIDEO = {
    False: {
        "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
        "intermediate_size": 48, "image_size": 32, "num_frames": 4, "patch_size": 8,
    },
    True: {
        "hidden_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4, "mlp_ratio": 2,
        "crop_size": 32, "patch_size": 8, "frames_per_clip": 4, "tubelet_size": 2,
        "pred_hidden_size": 48, "pred_num_hidden_layers": 1, "pred_num_attention_heads": 4,
    },
}  # fmt: skip
CARD = ModelCard(architecture="timm/test_efficientnet", options={"num_classes": 3})


def test_a_head_that_fits_is_kept_and_gets_the_names() -> None:
    model = build(CARD.architecture, **CARD.options)
    for labels in (None, ("a", "b", "c")):
        same, card, new = with_head_for(model, replace(CARD, labels=labels), ["a", "b", "c"], 0)
        assert same is model
        assert (card.labels, new) == (("a", "b", "c"), False)


def test_other_names_or_another_number_ask_for_a_new_head() -> None:
    model = build(CARD.architecture, **CARD.options)
    for labels in (["a", "b", "d"], ["a", "b", "c", "d"]):
        fresh, card, new = with_head_for(model, replace(CARD, labels=("a", "b", "c")), labels, 0)
        assert new
        assert (card.options["num_classes"], num_outputs(fresh)) == (len(labels),) * 2
        head = head_parameters(fresh)
        for name, tensor in model.state_dict().items():
            if name not in head:
                assert torch.equal(tensor, fresh.state_dict()[name]), name
        weight = fresh.state_dict()[next(name for name in sorted(head) if "weight" in name)]
        assert 0.01 < weight.std() < 0.03
        again, _, _ = with_head_for(model, replace(CARD, labels=("a", "b", "c")), labels, 0)
        assert all(
            torch.equal(a, b) for a, b in zip(fresh.parameters(), again.parameters(), strict=True)
        ), "the seed decides"
        bias = fresh.state_dict()[next(name for name in sorted(head) if "bias" in name)]
        assert bias.count_nonzero() == 0
        other, _, _ = with_head_for(model, replace(CARD, labels=("a", "b", "c")), labels, 1)
        assert not torch.equal(other.head.weight, fresh.head.weight)


def test_an_encoder_gets_a_head_on_its_features() -> None:
    encoder = build("timm/test_vit", num_classes=0).eval()
    card = ModelCard(architecture="timm/test_vit", options={"num_classes": 0})
    model, card, is_new = with_head_for(encoder, card, ("a", "b", "c"), seed=0)
    assert is_new
    assert card.options["num_classes"] == 3
    signal = torch.randn(2, 3, 160, 160)
    with torch.inference_mode():
        torch.testing.assert_close(model.embed(signal), encoder.embed(signal))
        assert model(signal).shape == (2, 3)


@pytest.mark.parametrize("kind", ["videomae", "timesformer", "vivit", "vjepa2"])
def test_a_video_encoder_of_transformers_gets_a_head_on_its_pooled_tokens(kind: str) -> None:
    pytest.importorskip("transformers")
    options = SMALL_VIDEO[kind == "vjepa2"]
    if kind == "vivit":
        options = {**options, "tubelet_size": [2, 8, 8]}
        del options["patch_size"]
    card = ModelCard(
        architecture=f"transformers/{kind}", options={**options, "num_classes": 0}, ndim=3
    )
    encoder = build(card.architecture, **card.options).eval()
    model, card, is_new = with_head_for(encoder, card, ("a", "b", "c"), seed=0)
    assert is_new
    assert head_parameters(model) == {"classifier.weight", "classifier.bias"}
    again = build_any(card)  # what the card of the trained network describes
    again.load_state_dict(model.state_dict())
    clip = torch.randn(2, 3, 4, 32, 32)
    with torch.inference_mode():
        torch.testing.assert_close(model.embed(clip), encoder.embed(clip))
        torch.testing.assert_close(again.eval()(clip), model(clip))
    other, card, is_new = with_head_for(model, card, ("a", "b"), seed=0)  # trained once more
    assert (is_new, card.options["pooled_head"], num_outputs(other)) == (True, True, 2)
