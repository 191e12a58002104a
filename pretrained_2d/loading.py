"""Worker processes that load data: started clean and quickly."""

import os
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext

# Imported once in the server that workers are forked from; each would take seconds for it.
PRELOAD = ["torch", "torchvision.transforms.v2", "pretrained_2d.images"]


def worker_count(asked: int) -> int:
    """At most one process per core: more would only take turns."""
    return min(asked, os.cpu_count() or 1)


def worker_context() -> ForkServerContext:
    """Fork from a server without threads or GPU: plain fork would copy locks that others hold."""
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    return context
