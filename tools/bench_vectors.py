"""The part `vectors` of bench_predict.py: embeddings and features beside predicted classes."""

import statistics
import time
from collections.abc import Callable
from pathlib import Path

VIDEOS = 40


def vectors(files: list[Path], model: Path, rounds: int, folder: Path) -> dict[str, float]:
    """Videos per second of one clip each, in turns; every turn starts and ends its process.

    One decoding process and one thread of the model. `features` writes its file, the others keep
    their results in memory.
    """
    from videopipe.dataset.manifest import Manifest, VideoRecord
    from videopipe.prediction.embedding.embedding_request import EmbeddingRequest
    from videopipe.prediction.predictor import Predictor
    from videopipe.probing.extraction import extract_features
    from videopipe.probing.probe_config import FeaturesConfig
    from videopipe.scoring.settings import Execution, Scoring

    files = _links(files * max(1, VIDEOS // len(files)), folder / "videos")
    execution = Execution(device="cpu", workers=1, threads=1)
    records = tuple(VideoRecord(path=str(file), status="ok") for file in files)
    manifest = Manifest(labels=(), records=records, root=folder)

    def classes(_: int) -> None:
        with Predictor(model, device="cpu", workers=1, threads=1, clips=1) as predictor:
            assert sum(1 for _ in predictor.predict(files)) == len(files)

    def embeddings(_: int) -> None:
        request = EmbeddingRequest(model=model, out=folder / "embeddings", scoring=Scoring(clips=1))
        with request.make_engine(execution) as engine:
            assert sum(1 for _ in engine.score(files)) == len(files)

    def features(number: int) -> None:
        out = folder / f"features{number}"
        out.mkdir()
        extract_features(FeaturesConfig(execution=execution), model, manifest, out)

    ways: dict[str, Callable[[int], None]] = {
        "classes": classes, "embeddings": embeddings, "features": features
    }  # fmt: skip
    speeds: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(rounds):
        for way, run in ways.items():
            begun = time.perf_counter()
            run(number)
            speeds[way].append(len(files) / (time.perf_counter() - begun))
    found = {way: statistics.median(each) for way, each in speeds.items()}
    for way, speed in found.items():
        print(f"{way}: {speed:.1f} videos/s, {speed / found['classes']:.2f} of classes")
    return found


def _links(files: list[Path], folder: Path) -> list[Path]:
    """A name of its own for every entry: `predict` takes a file that is named twice once."""
    folder.mkdir()
    links = [folder / f"{number:05}{file.suffix}" for number, file in enumerate(files)]
    for link, file in zip(links, files, strict=True):
        link.symlink_to(file.resolve())
    return links
