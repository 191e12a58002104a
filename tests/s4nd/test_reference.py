"""Parity with numbers dumped from the released code, through `from_reference` alone."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from s4nd import from_reference, reference
from s4nd.conv import lag_window

CASES = [
    *(
        f"d{d}_diag_{b}_{s}"
        for d in (1, 2)
        for b in ("diag-inv", "diag-lin")
        for s in ("bi", "uni")
    ),
    *(
        f"d{d}_dplr_{b}_{s}"
        for d in (1, 2)
        for b in ("diag-lin", "fourier", "legs")
        for s in ("bi", "uni")
    ),
    *(
        "v2_bandlimit0.2_diag",
        "v2_bandlimit0.2_dplr",
        "v2_bandlimit0.2_dplr_fourier",
        "v2_bilinear",
    ),
    *("v2_channels2", "v2_lmax_exact_dplr_trainlow", "v2_lmax_short", "v2_nssmH", "v2_outch"),
]
TOLERANCE = {"fourier": 1e-3, "legs": 5e-5}
NAMES = {"log_dt": "inv_dt"}


class Case:
    def __init__(self, path: Path) -> None:
        self.dump = np.load(path)
        self.meta = json.loads(str(self.dump["meta"]))
        self.options = self.meta["ctor"]
        self.tolerance = TOLERANCE.get(self.options["init"], 1e-5)

    def tensor(self, key):
        return torch.from_numpy(self.dump[key])

    def layer(self, state="post", **overrides):
        values = {
            k.removeprefix(f"{state}/"): self.tensor(k) for k in self.dump if k.startswith(state)
        }
        options = {
            "size": self.options.get("l_max") or self.meta["shape"][2:],
            "bidirectional": self.options.get("bidirectional", True),
            "discretisation": self.options.get("disc", "zoh"),
            "bandlimit": self.options.get("bandlimit"),
            "out_channels": self.options.get("out_channels"),
        }
        return from_reference(values, **(options | overrides))


@pytest.fixture
def case(oracle, request):
    return Case(oracle / f"{request.param}.npz")


def test_every_dump_is_tried(oracle):
    found = {p.stem for p in oracle.glob("*.npz") if p.stem[0] in "dv" and p.stem[1] in "12"}
    assert found == set(CASES)


@pytest.mark.parametrize("engine", ["matmul", "fft"])
@pytest.mark.parametrize("case", CASES, indirect=True)
def test_kernels_and_outputs_at_every_rate(dense, case, engine):
    layer = case.layer()
    layer.engine = engine
    rates = [("", case.meta["rate"]), *((f"rate{r}/", r) for r in case.meta["rates"])]
    for prefix, rate in rates:
        for index, space in enumerate(layer.spaces):
            theirs = case.tensor(f"{prefix}k{index}")
            assert dense.relative(space(theirs.shape[-1], rate), theirs) < case.tolerance
        y = layer(case.tensor(f"{prefix}x"), rate)
        assert dense.relative(y, case.tensor(f"{prefix}y")) < case.tolerance


@pytest.mark.parametrize("case", CASES, indirect=True)
def test_two_sided_layout(dense, case):
    """kb: lags from 0 upwards, negative lags at the end."""
    layer, rate = case.layer(), case.meta["rate"]
    shape = case.tensor("x").shape[2:]
    for index, taps in enumerate(layer.taps(shape, rate)):
        theirs, size = case.tensor(f"kb{index}"), shape[index]
        window = lag_window(taps, size)
        if not layer.axes[index].bidirectional:
            assert dense.relative(window[..., size - 1 :], theirs) < case.tolerance
            assert not window[..., : size - 1].any()
            continue
        ours = torch.cat((window[..., size - 1 :], window[..., : size - 1]), -1)
        theirs = torch.cat((theirs[..., :size], theirs[..., theirs.shape[-1] - size + 1 :]), -1)
        assert dense.relative(ours, theirs) < case.tolerance


@pytest.mark.parametrize("engine", ["matmul", "fft"])
@pytest.mark.parametrize("case", CASES, indirect=True)
def test_gradients(dense, case, engine):
    layer, signal = case.layer(), case.tensor("x").requires_grad_()
    layer.engine = engine
    (layer(signal, case.meta["rate"]) * case.tensor("wgt")).sum().backward()
    assert dense.relative(signal.grad, case.tensor("gx")) < 1e-3
    if not case.options.get("out_channels"):
        assert dense.relative(layer.D.grad, case.tensor("g/D")) < 1e-3
    for index, space in enumerate(layer.spaces):
        for name, parameter in space.named_parameters():
            theirs = case.tensor(f"g/kernel.{index}.{NAMES.get(name, name)}")
            ours = parameter.grad
            if not theirs.abs().max():
                assert not ours.abs().max()  # P of a diagonal start has no gradient
                continue
            if case.options["init"] == "fourier":
                # The dump is in single precision, which loses the gradient at the pole nearest to
                # the origin; `test_gradient_at_the_pole_at_the_origin` compares that one in
                # float64.
                kept = slice(0, -1) if name in ("A_imag", "A_real") else slice(None)
                ours, theirs = ours[..., kept], theirs[..., kept]
            tolerance = 5e-3 if case.options["init"] == "fourier" else 1e-3
            assert dense.relative(ours, theirs) < tolerance, name


def test_gradient_at_the_pole_at_the_origin(oracle, dense):
    """Against dense float64 algebra, in the case where the dump is wrong by 5 %."""
    case = Case(oracle / "d1_dplr_fourier_uni.npz")
    space = case.layer().spaces[0].double()
    weight = torch.randn(1, 4, 17).double()
    (ours,) = torch.autograd.grad((space(17) * weight).sum(), space.A_imag)
    step, numeric = 1e-6, []
    for pair in range(space.A_imag.shape[-1]):
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                space.A_imag[0, pair] += sign * step
                values.append((dense.kernel(space, 17) * weight).sum())
                space.A_imag[0, pair] -= sign * step
        numeric.append((values[0] - values[1]) / (2 * step))
    assert dense.relative(ours[0], torch.stack(numeric)) < 1e-5


@pytest.mark.parametrize("case", ["d2_dplr_legs_bi", "d2_dplr_fourier_bi"], indirect=True)
def test_a_state_dict_that_never_ran_is_folded_on_the_way(dense, case):
    """Before the first forward pass the reference holds the plain C and l_kernel 0."""
    assert int(case.tensor("init/kernel.0.l_kernel")) == 0
    y = case.layer("init")(case.tensor("x"))
    assert dense.relative(y, case.tensor("y")) < case.tolerance


@pytest.mark.parametrize("case", ["d1_dplr_legs_bi"], indirect=True)
def test_a_period_shorter_than_size_is_doubled(dense, case):
    short, long = case.layer(), case.layer(size=30)
    assert long.axes[0].period == 34
    assert (
        dense.relative(
            long.double()(case.tensor("x").double()), short.double()(case.tensor("x").double())
        )
        < 1e-6
    )
    assert dense.relative(long.spaces[0](30), dense.kernel(short.spaces[0], 30)) < 1e-5


def test_rank_is_averaged_as_in_the_reference(dense, oracle):
    case = Case(oracle / "v2_channels2.npz")
    values = {k.removeprefix("post/"): case.tensor(k) for k in case.dump if k.startswith("post/")}
    apart = case.layer()  # two kernels per channel, side by side
    values["D"] = torch.zeros_like(values["D"][:1])
    mean = from_reference(values, size=case.meta["shape"][2:], rank=2)
    with torch.no_grad():
        apart.D.zero_()
        both = apart(case.tensor("x")).unflatten(1, (2, -1)).mean(1)
        assert dense.relative(mean(case.tensor("x")), both) < 1e-6


def test_wrong_state_dicts_are_named(oracle):
    case = Case(oracle / "d2_dplr_legs_bi.npz")
    with pytest.raises(ValueError, match="has 2 axes, got size"):
        case.layer(size=[9])
    with pytest.raises(ValueError, match=r"C has 2 kernels per channel; expected 1 for"):
        case.layer(bidirectional=False)
    with pytest.raises(ValueError, match="not the state dict of a reference S4ND"):
        from_reference({"weight": torch.zeros(2)}, size=9)


@pytest.mark.parametrize(
    ("stored", "size", "period"),
    [(24, 24, 24), (30, 24, 30), (12, 24, 24), (10, 24, 40), (0, 7, 7)],
)
def test_a_period_is_doubled_only_until_it_holds_the_kernel(stored, size, period):
    assert reference._period(stored, size) == period
