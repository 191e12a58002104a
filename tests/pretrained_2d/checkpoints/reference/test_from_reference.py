import importlib.util
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from pretrained_2d import CheckpointError, ModelCard, from_reference, load_checkpoint
from pretrained_2d.checkpoints.folder import save_checkpoint

_spec = importlib.util.spec_from_file_location(
    "public_code", Path(__file__).parent / "public_code.py"
)
public = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(public)

CONVNEXTS = [
    ("conv", (32, 32)),
    ("s4nd", (32, 32)),
    ("s4nd", (32, 64)),
    ("s4nd+stem", (32, 32)),
    ("s4nd+downsample", (32, 32)),
    ("s4nd+stem+downsample", (32, 32)),
    ("conv", (4, 32, 32)),
    ("factored", (6, 32, 32)),
    ("s4nd", (6, 32, 32)),
    ("s4nd+downsample", (4, 32, 32)),
]


def relative(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    return float((ours - theirs).abs().max() / theirs.abs().max())


@pytest.mark.parametrize("name", ["model_convnext2d_blocks", "model_convnext3d_conv_factor0"])
def test_dumps_of_whole_networks(oracle: Path, name: str) -> None:
    dump = np.load(oracle / f"{name}.npz")
    state = {key[3:]: dump[key] for key in dump.files if key.startswith("sd/")}
    signal = torch.from_numpy(dump["x"])
    network = from_reference(state, "convnext", input_size=signal.shape[2:])
    with torch.inference_mode():
        assert relative(network(signal), torch.from_numpy(dump["y"])) < 1e-4
        if "res2/x" in dump.files:  # twice as many samples of the same scene
            finer = network(torch.from_numpy(dump["res2/x"]), rate=0.5)
            assert relative(finer, torch.from_numpy(dump["res2/y"])) < 1e-4


@pytest.mark.parametrize(("kind", "size"), CONVNEXTS)
def test_convnext(kind: str, size: tuple[int, ...]) -> None:
    state = public.convnext(kind, size)
    network = from_reference(state, "convnext", input_size=size)
    signal = torch.randn(2, 3, *size)
    with torch.inference_mode():
        assert relative(network(signal), public.run_convnext(state, signal, size)) < 1e-4
    if len(size) == 2 and kind.startswith("s4nd"):
        finer = torch.randn(2, 3, *(2 * n for n in size))
        with torch.inference_mode():
            expected = public.run_convnext(state, finer, size, rate=0.5)
            assert relative(network(finer, rate=0.5), expected) < 1e-4


@pytest.mark.parametrize(
    ("kind", "size"),
    [("s4nd", (8,)), ("s4nd", (8, 8)), ("s4nd", (4, 8, 8)), ("dense", (8, 8)), ("conv", (8, 8))],
)
def test_isotropic(kind: str, size: tuple[int, ...]) -> None:
    state = public.isotropic(kind, size)
    network = from_reference(state, "isotropic", input_size=size)
    signal = torch.randn(2, 3, *size)
    with torch.inference_mode():
        assert relative(network(signal), public.run_isotropic(state, signal, size, kind)) < 1e-4


@pytest.mark.parametrize("unused_kernel", [False, True])
def test_vit(unused_kernel: bool) -> None:
    state = public.vit(16, unused_kernel=unused_kernel)
    network = from_reference(state, "vit", input_size=16)
    signal = torch.randn(2, 3, 16, 16)
    with torch.inference_mode():
        assert relative(network(signal), public.run_vit(state, signal, 16)) < 1e-4


@pytest.mark.parametrize(
    ("architecture", "kind", "size"),
    [
        ("convnext_tiny", "s4nd+stem+downsample", (32, 32)),
        ("convnext_micro", "s4nd", (4, 32, 32)),
        ("convnext_tiny", "factored", (4, 32, 32)),
        ("isotropic", "s4nd", (8, 8)),
        ("vit_base", "", (16, 16)),
    ],
)
def test_a_converted_network_is_saved_and_loaded(
    architecture: str, kind: str, size: tuple[int, ...], tmp_path: Path
) -> None:
    family = architecture.partition("_")[0]
    states = {
        "convnext": lambda: public.convnext(kind, size),
        "isotropic": lambda: public.isotropic(kind, size),
        "vit": lambda: public.vit(16),
    }
    network = from_reference(states[family](), family, input_size=size)
    options = json.loads(json.dumps(asdict(network.config)))
    card = ModelCard(architecture=architecture, options=options, ndim=len(size))
    save_checkpoint(tmp_path / "model", network, card)
    again, _ = load_checkpoint(tmp_path / "model")
    signal = torch.randn(1, 3, *size)
    with torch.inference_mode():
        assert torch.equal(network(signal), again(signal))


def test_layers_that_differ_from_the_others_are_kept_apart(tmp_path: Path) -> None:
    # The public code doubles a period inside a forward at another resolution, layer by layer.
    state = public.convnext("s4nd+downsample", (32, 32))
    state["stages.1.blocks.0.conv_dw.kernel.0.l_kernel"] *= 2
    network = from_reference(state, "convnext", input_size=32, bandlimit=0.5)
    assert list(network.config.layers) == ["stages.1.blocks.0.mixer"]
    assert network.stages[2].blocks[0].mixer.bandlimit == (0.5, 0.5)
    options = json.loads(json.dumps(asdict(network.config)))
    save_checkpoint(tmp_path, network, ModelCard(architecture="convnext_tiny", options=options))
    again, _ = load_checkpoint(tmp_path)
    signal = torch.randn(1, 3, 32, 32)
    with torch.inference_mode():
        assert torch.equal(network(signal), again(signal))


def test_kernels_of_rank_two() -> None:
    state = public.convnext("s4nd", (32, 32))
    for name in [name for name in state if name.endswith(".C")]:
        state[name] = state[name].repeat(2, 1, 1, 1)
    # Both ranks hold the same kernels and the public code takes their mean: nothing changes.
    signal = torch.randn(1, 3, 32, 32)
    twice = from_reference(_interleaved(state), "convnext", input_size=32, rank=2)
    with torch.inference_mode():
        once = public.run_convnext(public_half(state), signal, (32, 32))
        assert relative(twice(signal), once) < 1e-4


def _interleaved(state):
    """Forward kernels of both ranks first, then backward ones, as the public code stores them."""
    return {
        name: torch.cat([tensor[0::2], tensor[1::2]]) if name.endswith(".C") else tensor
        for name, tensor in state.items()
    }


def public_half(state):
    return {name: t[: len(t) // 2] if name.endswith(".C") else t for name, t in state.items()}


def test_wrappers_and_prefixes_are_removed() -> None:
    state = public.convnext("s4nd", (32, 32))
    wrapped = {"state_dict": {f"model.{name}": tensor for name, tensor in state.items()}}
    signal = torch.randn(1, 3, 32, 32)
    plain = from_reference(state, "convnext", input_size=32)
    unwrapped = from_reference(wrapped, "convnext", input_size=32)
    with torch.inference_mode():
        assert torch.equal(plain(signal), unwrapped(signal))


@pytest.mark.parametrize(
    ("encoder", "body", "decoder"),
    [
        ("encoder", "backbone", "decoder.output_transform"),
        ("0", "1", "2"),
        ("module.encoder.0", "module.model", "module.decoder.0"),
    ],
)
def test_the_ends_of_an_isotropic_network_are_known_by_shape(encoder, body, decoder) -> None:
    state = public.isotropic("s4nd", (8, 8))
    parts = {"encoder.0": encoder, "model": body, "decoder.0.output_transform": decoder}
    renamed = {
        name.replace(part, new, 1): tensor
        for name, tensor in state.items()
        for part, new in parts.items()
        if name.startswith(f"{part}.")
    }
    assert len(renamed) == len(state)
    signal = torch.randn(1, 3, 8, 8)
    with torch.inference_mode():
        plain = from_reference(state, "isotropic", input_size=8)(signal)
        assert torch.equal(plain, from_reference(renamed, "isotropic", input_size=8)(signal))


def test_options_that_do_not_fit_are_errors() -> None:
    state = public.convnext("s4nd", (32, 32))
    with pytest.raises(CheckpointError, match="unexpected keyword argument 'colour'"):
        from_reference(state, "convnext", input_size=32, colour="red")
    with pytest.raises(CheckpointError, match="rank=2"):
        from_reference(state, "convnext", input_size=32, rank=2)


def test_the_public_code_s_words_for_options_are_understood() -> None:
    state = public.convnext("s4nd+downsample", (32, 32))
    for name in [name for name in state if name.endswith(("l_kernel", ".P"))]:
        del state[name]
    signal = torch.randn(1, 3, 32, 32)
    with torch.inference_mode():
        theirs = from_reference(state, "convnext", input_size=32, disc="bilinear", trank=1)
        ours = from_reference(state, "convnext", input_size=32, discretisation="bilinear")
        other = from_reference(state, "convnext", input_size=32, downsample_act=True)
        assert torch.equal(theirs(signal), ours(signal))
        assert not torch.allclose(theirs(signal), other(signal))


def _without(state, *parts):
    return {name: tensor for name, tensor in state.items() if not any(p in name for p in parts)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: _without(s, "head.fc"), "has no 'head.fc.weight'"),
        (lambda s: _without(s, "stages.2."), "have .1, 2, 0, 1. blocks"),
        (lambda s: _without(s, "stages.1.blocks.0."), "has a gap|have a gap"),
        (lambda s: _without(s, "stem."), "the stem is neither of patches"),
        (lambda s: {**s, "distiller.weight": torch.zeros(3)}, "1 tensors have no place.*distiller"),
        (lambda s: _without(s, "blocks.0.conv_dw.kernel.1.B"), "S4ND layer 'stages.0.blocks.0"),
        (lambda _: {"weight": torch.zeros(3)}, "not a ConvNeXt of the public code"),
    ],
)
def test_what_is_missing_or_left_over_is_named(change, message: str) -> None:
    state = change(public.convnext("s4nd", (32, 32)))
    with pytest.raises(CheckpointError, match=message):
        from_reference(state, "convnext", input_size=32)


@pytest.mark.parametrize(
    ("architecture", "size", "message"),
    [
        ("resnet", 32, "saves convnext, isotropic, vit"),
        ("convnext", (4, 32, 32), "has 2 axes, but input_size is"),
        ("isotropic", 32, "not an isotropic network"),
        ("vit", 32, "not an S4ND-ViT"),
    ],
)
def test_wrong_requests(architecture: str, size, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        from_reference(public.convnext("s4nd", (32, 32)), architecture, input_size=size)
