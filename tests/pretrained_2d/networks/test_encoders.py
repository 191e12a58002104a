"""Networks without a classifying layer: features, pooled as their library pools them."""

import pytest
import timm
import torch
from torch import nn

from pretrained_2d import ModelCard, PretrainedError, build, load_checkpoint, save_checkpoint
from pretrained_2d.checkpoints.fitting import load_tensors

SMALL_CONVNEXT = {"depths": [1, 1, 1, 1], "widths": [4, 4, 8, 8]}
OURS = {
    "convnext_tiny": SMALL_CONVNEXT,
    "vit_base": {"depth": 1, "width": 12, "image_size": 32},
    "isotropic": {"depth": 1, "width": 8, "image_size": 32},
    "inception": {},
}
TIMM = [
    "test_vit",
    "test_resnet",
    "test_convnext",
    "test_efficientnet",
    "test_vit3",
    "test_byobnet",
]
TORCHVISION = ["resnet18", "squeezenet1_1", "mobilenet_v3_small", "shufflenet_v2_x0_5"]
# networks that answer `get_classifier` only when they have one
WITHOUT_ANSWER = ["efficientvit_m0", "shvit_s1"]


@pytest.mark.parametrize("name", [*TIMM, *WITHOUT_ANSWER])
def test_embed_gives_timm_s_own_pooled_features(name: str) -> None:
    network = build(f"timm/{name}", num_classes=0).eval()
    size = network.network.pretrained_cfg["input_size"][-1]
    signal = torch.randn(2, 3, size, size)
    with torch.inference_mode():
        inner = network.network
        expected = inner.forward_head(inner.forward_features(signal), pre_logits=True)
        assert torch.equal(network.embed(signal), expected)
        assert torch.equal(network(signal), expected)
    assert network.heads == ()
    assert expected.shape == (2, network.num_features)


def trunk_of(network: nn.Module, encoder: nn.Module) -> dict[str, torch.Tensor]:
    return {name: network.state_dict()[name] for name in encoder.state_dict()}


ALL = [(f"timm/{name}", {}) for name in TIMM] + [(f"torchvision/{n}", {}) for n in TORCHVISION]


@pytest.mark.parametrize(("architecture", "options"), [*ALL, *OURS.items()])
def test_an_encoder_gives_what_the_classifier_s_head_sees(architecture: str, options) -> None:
    network = build(architecture, num_classes=5, **options).eval()
    encoder = build(architecture, num_classes=0, **options).eval()
    encoder.load_state_dict(trunk_of(network, encoder))
    lost = network.state_dict().keys() - encoder.state_dict().keys()
    heads = getattr(network, "heads", ("head",))
    assert all(name.startswith(heads) for name in lost)
    size = 160 if architecture.startswith("timm/") else 32
    signal = torch.randn(2, 3, size, size)
    with torch.inference_mode():
        seen = network.embed(signal)
        torch.testing.assert_close(encoder.embed(signal), seen)
        torch.testing.assert_close(encoder(signal), seen)


@pytest.mark.parametrize("architecture", ["timm/test_vit", "torchvision/resnet18", "vit_base"])
def test_an_encoder_is_saved_and_loaded(architecture: str, tmp_path) -> None:
    options = {**OURS.get(architecture, {}), "num_classes": 0}
    network = build(architecture, **options).eval()
    save_checkpoint(tmp_path, network, ModelCard(architecture=architecture, options=options))
    again, card = load_checkpoint(tmp_path)
    size = 160 if architecture.startswith("timm/") else 32
    signal = torch.randn(1, 3, size, size)
    assert card.labels is None
    with torch.inference_mode():
        assert torch.equal(again.embed(signal), network.embed(signal))


def test_classes_give_an_encoder_a_head_on_its_pooled_features() -> None:
    name = "vit_small_patch14_dinov2"
    with torch.device("meta"):
        encoder, classifier = build(f"timm/{name}"), build(f"timm/{name}", num_classes=5)
    assert encoder.heads == ()
    assert classifier.head.weight.shape == (5, encoder.num_features) == (5, 384)


def test_features_that_are_no_vector_name_the_option_that_decides() -> None:
    network = build("timm/test_resnet", num_classes=0, global_pool="").eval()
    with pytest.raises(PretrainedError, match="the option global_pool decides"):
        network.embed(torch.randn(1, 3, 64, 64))


@pytest.mark.slow
def test_every_family_of_timm_is_an_encoder() -> None:
    families = {}
    for name in timm.list_models():
        families.setdefault(timm.models.model_entrypoint(name).__module__, name)
    assert len(families) > 60
    for name in families.values():
        with torch.device("meta"), torch.no_grad():
            network = build(f"timm/{name}", num_classes=0).eval()
            size = network.network.pretrained_cfg["input_size"]
            assert network.embed(torch.zeros(2, *size)).shape == (2, network.num_features), name


FAMILIES = [
    "alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "googlenet", "inception_v3",
    "maxvit_t", "mnasnet0_5", "regnet_y_400mf", "swin_t", "swin_v2_t", "vgg11", "vit_b_32",
    "mvit_v1_b", "r3d_18", "s3d", "swin3d_t",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_of_torchvision_is_an_encoder(name: str) -> None:
    network = build(f"torchvision/{name}", num_classes=5).eval()
    encoder = build(f"torchvision/{name}", num_classes=0).eval()
    load_tensors(encoder, trunk_of(network, encoder))
    axes = (16, 224, 224) if name in ("mvit_v1_b", "s3d") else (8, 64, 64)
    signal = torch.randn(1, 3, *(axes if network.ndim == 3 else (224, 224)))
    with torch.inference_mode():
        torch.testing.assert_close(encoder.embed(signal), network.embed(signal))


@pytest.mark.skipif(not timm.is_model("gemma4_vit_167m_enc"), reason="added to timm in 1.0.31")
def test_an_encoder_of_tokens_names_the_option_that_pools() -> None:
    images = torch.zeros(1, 3, 96, 96, device="meta")
    with torch.device("meta"), torch.no_grad():
        tokens = build("timm/gemma4_vit_167m_enc", num_classes=0, depth=1)
        with pytest.raises(PretrainedError, match="the option global_pool decides how it pools"):
            tokens(images)
        pooled = build("timm/gemma4_vit_167m_enc", num_classes=0, depth=1, global_pool="avg")
        assert pooled(images).shape == (1, 768)
