import pytest
import torch
from torch import nn

from pretrained_2d.errors import TrainingError
from pretrained_2d.networks.backbones import build
from pretrained_2d.training.learner import Learner, start_processes
from pretrained_2d.training.optimiser import (
    ParameterGroup,
    build_optimizer,
    parameter_groups,
)
from pretrained_2d.training.recipe import Recipe
from s4nd import state_space_parameters

RECIPE = Recipe(lr=0.01, state_space_lr=0.001, weight_decay=0.3)


@pytest.fixture
def network():
    return build(
        "isotropic",
        mixer="s4nd",
        depth=1,
        width=8,
        num_classes=3,
        axis={"state": 4, "basis": "legs"},
    )


def test_every_parameter_is_in_exactly_one_group(network):
    groups = parameter_groups(network, RECIPE)
    found = [id(parameter) for group in groups for parameter in group.parameters]
    assert sorted(found) == sorted(id(parameter) for parameter in network.parameters())


def test_state_spaces_have_their_own_rate_and_do_not_decay(network):
    group = next(g for g in parameter_groups(network, RECIPE) if g.name == "state_space")
    assert {id(p) for p in group.parameters} == {id(p) for p in state_space_parameters(network)}
    assert (group.lr, group.weight_decay) == (0.001, 0.0)


def test_biases_and_norms_do_not_decay(network):
    groups = {group.name: group for group in parameter_groups(network, RECIPE)}
    undecayed = {id(p) for p in groups["undecayed"].parameters}
    assert id(network.head.bias) in undecayed
    assert id(network.norm.weight) in undecayed
    assert id(network.head.weight) in {id(p) for p in groups["weights"].parameters}
    assert groups["undecayed"].weight_decay == 0.0
    assert groups["weights"].weight_decay == 0.3


def test_without_a_rate_of_their_own_state_spaces_learn_like_the_rest(network):
    groups = parameter_groups(network, Recipe(lr=0.02))
    assert {group.lr for group in groups} == {0.02}


def test_a_scale_sets_the_rates_of_layers_and_freezes_at_zero():
    network = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    scale = {"0": 0.0, "1": 0.5, "2": 1.0}
    groups = parameter_groups(network, Recipe(lr=0.1), scale=lambda name: scale[name[0]])
    assert {group.name: group.lr for group in groups} == {
        "weights×0.5": 0.05,
        "undecayed×0.5": 0.05,
        "weights": 0.1,
        "undecayed": 0.1,
    }
    assert not network[0].weight.requires_grad


def test_a_scale_multiplies_the_rate_of_state_spaces_too(network):
    groups = parameter_groups(network, RECIPE, scale=lambda _: 0.5)
    assert {group.name: (group.lr, group.weight_decay) for group in groups} == {
        "weights×0.5": (0.005, 0.3),
        "undecayed×0.5": (0.005, 0.0),
        "state_space×0.5": (0.0005, 0.0),
    }


def test_adamw_takes_the_groups_in_order(network):
    groups = parameter_groups(network, RECIPE)
    optimizer = build_optimizer(groups, RECIPE)
    assert isinstance(optimizer, torch.optim.AdamW)
    assert [group["lr"] for group in optimizer.param_groups] == [group.lr for group in groups]
    assert optimizer.defaults["betas"] == (0.9, 0.999)


@pytest.mark.parametrize(
    ("architecture", "options", "undecayed"),
    [
        ("vit_base", {"depth": 1, "width": 12, "image_size": 32}, {"class_token", "positions"}),
        ("timm/test_vit", {}, {"network.cls_token", "network.pos_embed"}),
    ],
)
def test_position_tables_and_class_tokens_do_not_decay(architecture, options, undecayed):
    network = build(architecture, **options)
    wrapped = nn.Sequential(network)  # as an inflated network holds the 2D one
    for model, prefix in ((network, ""), (wrapped, "0.")):
        groups = {group.name: group for group in parameter_groups(model, RECIPE)}
        still = {id(parameter) for parameter in groups["undecayed"].parameters}
        names = {name for name, p in model.named_parameters() if id(p) in still and p.ndim > 1}
        assert names == {f"{prefix}{name}" for name in undecayed}
        assert groups["undecayed"].weight_decay == 0.0


def test_a_state_with_other_groups_is_refused_with_a_remedy(tmp_path):
    from accelerate import Accelerator

    model = nn.Linear(2, 2)
    one = [ParameterGroup("weights", tuple(model.parameters()), 0.1, 0.1)]
    two = [ParameterGroup(name, (p,), 0.1, 0.1) for name, p in model.named_parameters()]
    state = Learner(model, one, Recipe(), Accelerator(cpu=True)).state()
    with pytest.raises(TrainingError, match=r"other groups of parameters.*in another folder"):
        Learner(model, two, Recipe(), Accelerator(cpu=True)).restore(state)


def test_a_step_raises_the_version_of_what_it_changed(network, tmp_path):
    """Layers that cache kernels in evaluation detect changes by versions only."""
    recipe = Recipe(lr=0.1, device="cpu")
    groups = parameter_groups(network, recipe)
    learner = Learner(network, groups, recipe, start_processes(recipe, tmp_path))
    before = {name: parameter._version for name, parameter in network.named_parameters()}
    for parameter in network.parameters():
        parameter.grad = torch.ones_like(parameter)
    learner.update(1.0, 0)
    for name, parameter in network.named_parameters():
        assert parameter._version > before[name], name
