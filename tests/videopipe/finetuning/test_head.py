"""A head is kept where it fits; a new one starts small and leaves everything else as it was."""

from dataclasses import replace

import torch

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.networks.backbones import build
from videopipe.finetuning.head import head_parameters, with_head_for
from videopipe.models import num_outputs

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
