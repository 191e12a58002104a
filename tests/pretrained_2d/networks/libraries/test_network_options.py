import torch

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.checkpoints.folder import build_from_card
from pretrained_2d.networks.backbones import build, network_options
from pretrained_2d.pretraining import set_bandlimit, with_bandlimit
from s4nd import S4ND


def test_options_follow_the_data_and_keep_the_defaults_of_an_axis():
    given = {"depth": 2, "axis": {"bandlimit": 0.1}}
    options = network_options("isotropic", given, num_classes=7, image_size=16)
    assert options["num_classes"] == 7
    assert options["image_size"] == 16
    assert options["axis"]["bandlimit"] == 0.1
    assert options["axis"]["basis"] == "legs", "the network's default"


def test_given_options_take_precedence():
    options = network_options("convnext_tiny", {"num_classes": 3, "image_size": 96}, 7, 16)
    assert (options["num_classes"], options["image_size"]) == (3, 96)


def test_library_networks_get_no_image_size():
    assert network_options("timm/resnet18", {}, 7, 16) == {"num_classes": 7}


def test_a_changed_bandlimit_is_in_the_network_and_in_its_card():
    options = {"depth": 1, "width": 8, "num_classes": 2, "image_size": 8}
    network = build("isotropic", **options).eval()
    set_bandlimit(network, 0.05)
    card = with_bandlimit(ModelCard(architecture="isotropic", options=options), 0.05)
    rebuilt = build_from_card(card).eval()
    rebuilt.load_state_dict(network.state_dict())
    layers = [module for module in rebuilt.modules() if isinstance(module, S4ND)]
    assert [layer.bandlimit for layer in layers] == [(0.05, 0.05)]
    image = torch.randn(1, 3, 8, 8)
    assert torch.equal(network(image), rebuilt(image))
    set_bandlimit(network, None)
    assert not torch.equal(network(image), rebuilt(image))


def test_networks_without_axes_keep_their_card():
    card = ModelCard(architecture="timm/resnet18", options={"num_classes": 2})
    assert with_bandlimit(card, 0.1) is card
