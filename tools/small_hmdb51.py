"""Write a small stand-in for HMDB-51 and for the three backbones of its table, to rehearse with.

python tools/small_hmdb51.py FOLDER

FOLDER/hmdb51 has the layout of the downloaded data set: videos/<class>/*.avi beside
testTrainMulti_7030_splits/. Its classes are motions of generated shapes. convnext, s4nd_convnext
and inception are untrained networks in checkpoint folders; the first two are much smaller than the
paper's.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
from pretrained_2d.checkpoints.folder import save_checkpoint
from pretrained_2d.networks.backbones import build
from pretrained_2d.randomness import derive_seed
from videopipe.dataset.moving_shapes import draw_scene, frames_of
from videopipe.video.writing import write_video

CLASSES = ("left", "right")
SIZE_PIXELS = 32
NUM_SPLITS = 3
TRAIN, TEST = 1, 2  # the marks of the split files
SMALL = {"depths": (1, 1, 1, 1), "widths": (8, 8, 8, 8), "image_size": SIZE_PIXELS}
BACKBONES = {
    "convnext": ("convnext_tiny", SMALL),
    "s4nd_convnext": ("convnext_tiny", {**SMALL, "mixer": "s4nd"}),
    "inception": ("inception", {}),
}


def write_data(root: Path, videos_per_class: int) -> None:
    splits = root / "testTrainMulti_7030_splits"
    splits.mkdir(parents=True)
    for label in CLASSES:
        names = [f"film{i}_{label}_u_cm_np1_fr_goo_{i}.avi" for i in range(videos_per_class)]
        (root / "videos" / label).mkdir(parents=True)
        for name in names:
            random = np.random.default_rng(derive_seed(0, name))
            scene = draw_scene(random, SIZE_PIXELS)
            frames = frames_of(scene, label, num_frames=18, frame_rate=15.0)
            write_video(root / "videos" / label / name, frames, frame_rate=15.0)
        for split in range(NUM_SPLITS):
            marks = [TEST if i % NUM_SPLITS == split else TRAIN for i in range(videos_per_class)]
            lines = [f"{name} {mark} " for name, mark in zip(names, marks, strict=True)]
            file = splits / f"{label}_test_split{split + 1}.txt"
            file.write_text("\n".join(lines) + "\n")


def write_backbones(root: Path) -> None:
    torch.manual_seed(0)
    for name, (architecture, options) in BACKBONES.items():
        options = {"num_classes": 10, **options}
        pixels = Preprocessing(image_size=SIZE_PIXELS, resize=SIZE_PIXELS)
        card = ModelCard(architecture=architecture, options=options, preprocessing=pixels)
        save_checkpoint(root / name, build(architecture, **options), card)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="new folder")
    parser.add_argument("--videos", type=int, default=12, help="of each of the two classes (12)")
    args = parser.parse_args()
    args.folder.mkdir(parents=True)
    write_data(args.folder / "hmdb51", args.videos)
    write_backbones(args.folder)
    print(f"HMDB51={args.folder / 'hmdb51'}")
    for name in BACKBONES:
        print(f"{name.upper()}={args.folder / name}")


if __name__ == "__main__":
    main()
