"""The decoding libraries that load on this machine; tests of each backend run over these."""

import pytest

from videopipe.errors import DecodeError
from videopipe.video.video import BACKENDS, load_backend

REMEDIES = {
    "torchcodec": 'pip install "videopipe[torchcodec]"; apt install ffmpeg for its libraries',
    "decord": "pip install decord, which exists for x86_64",
}


def why_not(name: str) -> str | None:
    """The reason why a backend does not load, or None."""
    try:
        load_backend(name)
    except DecodeError as error:
        return error.reason
    return None


INSTALLED = [name for name in BACKENDS if why_not(name) is None]
# Missing backends are not parametrised: test_installed_backends.py skips once for each of them.
backends = pytest.mark.parametrize("backend", INSTALLED)
auto_and_backends = pytest.mark.parametrize("backend", ["auto", *INSTALLED])


def backends_slow_except(*quick: str) -> pytest.MarkDecorator:
    """The installed backends, those not named here marked as slow."""
    return pytest.mark.parametrize(
        "backend",
        [pytest.param(n, marks=[] if n in quick else pytest.mark.slow) for n in INSTALLED],
    )
