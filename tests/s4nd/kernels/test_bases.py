import math

import numpy as np
import pytest
import torch

from s4nd.kernels.bases import BASES, initial_state_spaces

KNOWN = ["legs", "fourier", "diag-lin", "diag-inv", "diag-legs", "diag-real"]


@pytest.mark.parametrize("state", [8, 16, 64])
@pytest.mark.parametrize("basis", KNOWN)
def test_spectrum_and_sizes_are_those_of_the_reference(oracle, basis, state):
    """Eigenvector phases are arbitrary, so |B|, |P| and B conj(P) are compared."""
    dump = np.load(oracle / "inits.npz")
    a, b, p = (torch.from_numpy(dump[f"{basis}/{state}/{name}"])[0] for name in "ABP")
    ours = initial_state_spaces(basis, state, 1, BASES[basis].low_rank)
    torch.testing.assert_close(ours.a[0].real.float(), a.real, atol=2e-4, rtol=1e-4)
    torch.testing.assert_close(ours.a[0].imag.float(), a.imag, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(ours.b[0].abs().float(), b.abs(), atol=1e-3, rtol=1e-3)
    if len(ours.p):
        torch.testing.assert_close(ours.p[0, 0].abs().float(), p[0].abs(), atol=1e-3, rtol=1e-3)
        product = (ours.b * ours.p[0].conj())[0]
        torch.testing.assert_close(product.to(b.dtype), b * p[0].conj(), atol=2e-3, rtol=2e-3)


def test_legs_is_the_hippo_matrix():
    """diag(a) - P P^H is similar to HiPPO-LegS: its eigenvalues are -1, -2, ..., -N."""
    space = initial_state_spaces("legs", 8, 1, 1)
    a = torch.cat((space.a[0], space.a[0].conj()))
    q = torch.cat((space.p[0, 0], space.p[0, 0].conj()))
    eigenvalues = torch.linalg.eigvals(torch.diag(a) - torch.outer(q, q.conj()))
    expected = -torch.arange(8.0, 0, -1, dtype=torch.float64)
    torch.testing.assert_close(eigenvalues.real.sort().values, expected, atol=1e-8, rtol=0)
    assert eigenvalues.imag.abs().max() < 1e-8


def test_first_basis_function_of_legs_is_an_exponential_and_of_fourier_a_box():
    times = torch.arange(0.25, 2.0, 0.25, dtype=torch.float64)
    box = torch.full_like(times, 0.5)  # of width 2: both have an integral of one
    for basis, expected in (("legs", (-times).exp()), ("fourier", box)):
        space = initial_state_spaces(basis, 64, 1, 1)
        a, b, first = (torch.cat((x[0], x[0].conj())) for x in (space.a, space.b, space.first))
        q = torch.cat((space.p[0, 0], space.p[0, 0].conj()))
        A = torch.diag(a) - torch.outer(q, q.conj())
        kernel = torch.stack([(first @ torch.matrix_exp(t * A) @ b).real for t in times])
        # The box of a truncated Fourier series rings by a few hundredths.
        tolerance = 1e-6 if basis == "legs" else 0.03
        torch.testing.assert_close(kernel, expected, atol=tolerance, rtol=0)


def test_hippo_is_half_legs_half_fourier():
    hippo = initial_state_spaces("hippo", 16, 6, 1)
    for copy in range(6):
        half = initial_state_spaces("legs" if copy < 3 else "fourier", 16, 1, 1)
        for name in ("a", "b", "first"):
            assert torch.equal(getattr(hippo, name)[copy], getattr(half, name)[0])
        assert torch.equal(hippo.p[:, copy], half.p[:, 0])
    with pytest.raises(ValueError, match="copies must be even, got 3"):
        initial_state_spaces("hippo", 16, 3, 1)


@pytest.mark.parametrize(("basis", "frequency"), [("random-linear", 1), ("random-inv", 0)])
def test_random_bases_differ_by_copy_and_are_normalised(basis, frequency):
    space = initial_state_spaces(basis, 32, 3, 1)
    assert not torch.equal(space.b[0], space.b[1])
    assert not torch.equal(space.p[0, 0], space.p[0, 1])
    energy = 2 * (space.b / space.a).abs().square().sum(-1)
    torch.testing.assert_close(energy, torch.ones_like(energy))
    spectrum = "diag-lin" if frequency else "diag-inv"
    assert torch.equal(space.a[0], initial_state_spaces(spectrum, 32, 1, 0).a[0])


def test_columns_of_p_beyond_the_basis_are_zero():
    space = initial_state_spaces("legs", 8, 2, 3)
    assert space.p.shape == (3, 2, 4)
    assert space.p[0].abs().min() > 0
    assert space.p[1:].abs().max() == 0


def test_linear_spectrum():
    space = initial_state_spaces("diag-lin", 6, 1, 0)
    expected = torch.tensor([0.0, -math.pi, -2 * math.pi], dtype=torch.float64)
    torch.testing.assert_close(space.a[0].imag, expected)


def test_every_basis_says_how_many_columns_p_needs():
    columns = {name: basis.low_rank for name, basis in BASES.items()}
    with_one = {"legs", "fourier", "hippo", "random-linear", "random-inv"}
    assert columns == {name: int(name in with_one) for name in BASES}
    for name, basis in BASES.items():
        assert len(basis.make(8, 0).p) == columns[name], name


def test_the_free_phase_of_an_eigenvector_is_fixed(monkeypatch):
    """LAPACK may return any phase; with the first entry real and positive B is the same."""
    plain, eigh = BASES["legs"].make(16, 0), torch.linalg.eigh

    def turned(matrix):
        values, vectors = eigh(matrix)
        return values, vectors * torch.exp(1j * torch.rand(len(values), dtype=torch.float64))

    monkeypatch.setattr(torch.linalg, "eigh", turned)
    for ours, expected in zip(BASES["legs"].make(16, 0), plain, strict=True):
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)
    assert plain.first.imag.abs().max() < 1e-12
    assert plain.first.real.min() > 0
