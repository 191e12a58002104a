import pytest

from tests.videopipe.video.installed_backends import INSTALLED, REMEDIES, why_not
from videopipe.video.video import BACKENDS


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_tests_of_every_backend_run_here(backend: str) -> None:
    reason = why_not(backend)
    if reason and backend in REMEDIES:
        pytest.skip(f"{reason}; tests of it are left out; to run them: {REMEDIES[backend]}")
    assert reason is None
    assert backend in INSTALLED
