"""A table of pretraining results by training and test size: python tools/resolution_table.py RUNS

Shows the accuracy of the network that validated best at each test size, on the images the run
tested it on. With --images N the networks are tested again, on N test images of the same data.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from pretrained_2d.checkpoints.card import Preprocessing
from pretrained_2d.checkpoints.folder import load_checkpoint
from pretrained_2d.images.dataset import TestImages
from pretrained_2d.images.evaluation import ImageEvaluation
from pretrained_2d.images.items import random_subset
from pretrained_2d.images.layouts import find_images


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, help="the runs folder of a pipeline")
    parser.add_argument("--images", type=int, help="test again, on this many images")
    parser.add_argument("--seed", type=int, default=0, help="which images, when not all")
    options = parser.parse_args()
    results = sorted(options.runs.glob("*/stage.json"))
    records = [(path.parent, json.loads(path.read_text())) for path in results]
    trained = [(folder, record) for folder, record in records if record["use"] == "pretrain"]
    if not trained:
        parser.exit(1, f"{options.runs} holds no finished pretraining\n")
    rows = []
    for folder, record in trained:
        tested = record["summary"].get("test") or record["summary"]["best"]
        accuracies = {int(name.split("@")[1]): tested[name] for name in tested if "@" in name}
        if options.images:
            accuracies = test_again(folder, record, options.images, options.seed)
        rows.append((describe(record), accuracies, record["summary"]))
    print(as_table(rows))


def describe(record: dict[str, Any]) -> str:
    """The stage and its place in the matrix."""
    values = ", ".join(f"{key.split('.')[-1]} {value}" for key, value in record["variant"].items())
    return f"{record['stage']} ({values})" if values else record["stage"]


def test_again(folder: Path, record: dict[str, Any], images: int, seed: int) -> dict[int, float]:
    """Accuracy of the best network of each size on `images` test images."""
    listing = find_images(Path(record["config"]["data"] or record["config"]["large_data"]))
    items = random_subset(listing.splits["test"], images, seed)
    accuracies = {}
    for place in sorted((folder / "best").glob("accuracy@*")):
        size = int(place.name.split("@")[1])
        network, card = load_checkpoint(place)
        evaluation = ImageEvaluation(
            TestImages(items, at_base(card.preprocessing, size).resize_and_crop),
            sizes=[size],
            preprocessing=card.preprocessing,
            objective="binary_cross_entropy" if listing.multilabel else "cross_entropy",
            batch_size=100,
            workers=0,
        )
        accuracies[size] = evaluation(network)[f"accuracy@{size}"]
    return accuracies


def at_base(preprocessing: Preprocessing, size: int) -> Preprocessing:
    """Read at the base size, or larger where the test size is."""
    largest = max(size, preprocessing.image_size)
    resize = round(preprocessing.resize * largest / preprocessing.image_size)
    return replace(preprocessing, image_size=largest, resize=resize)


def as_table(rows: list[tuple[str, dict[int, float], dict[str, Any]]]) -> str:
    """Markdown, one row per network."""
    sizes = sorted({size for _, accuracies, _ in rows for size in accuracies})
    lines = ["| network | " + " | ".join(f"{size} px" for size in sizes) + " | parameters | time |"]
    lines.append("|---" * (len(sizes) + 3) + "|")
    for name, accuracies, summary in rows:
        cells = [f"{100 * accuracies[s]:.1f} %" if s in accuracies else "–" for s in sizes]
        numbers = f"{summary['parameters']:,} | {summary['seconds'] / 60:.0f} min"
        lines.append(f"| {name} | {' | '.join(cells)} | {numbers} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
