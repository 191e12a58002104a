"""Settings that make the shipped pipelines run in seconds, as `--set` of each pipeline."""

from pathlib import Path

PIPELINES = Path(__file__).parents[2] / "pipelines"

TINY_RECIPE = {"recipe.batch_size": 4, "recipe.workers": 0, "recipe.warmup_steps": 1}
TINY_ISOTROPIC = {"options.depth": 1, "options.width": 4}
TINY_CONVNEXT = {"options.depths": "[1, 1, 1, 1]", "options.widths": "[4, 4, 4, 4]"}
TINY_VIT = {"options.depth": 1, "options.width": 8, "options.patch": 8}
IMAGENET = {
    "image_size": 32, "resize": 36, "recipe.epochs": 1, "recipe.batch_size": 8, "recipe.workers": 0,
}  # fmt: skip
CELEBA = {"image_size": 64, "options.stem_kernel": 64}
PLAIN_STEPS = {"recipe.epochs": 1, "recipe.precision": "fp32", "recipe.compile": "false"}
TWO_PHASES = "[{epochs: 1, size: %d, bandlimit: 0.1}, {epochs: 1, size: %d}]"

# What --set changes: by pipeline, then by stage.
TINY_2D: dict[str, dict[str, dict[str, object]]] = {
    "imagenet_convnext.yaml": {"backbone": IMAGENET | TINY_CONVNEXT},
    "imagenet_s4nd_convnext.yaml": {"backbone": IMAGENET | TINY_CONVNEXT},
    "imagenet_vit.yaml": {"backbone": IMAGENET | TINY_VIT | {"options.heads": 2}},
    "imagenet_s4nd_vit.yaml": {"backbone": IMAGENET | TINY_VIT},
    "cifar10_zero_shot.yaml": {
        "s4nd": {
            "recipe.epochs": 1, "matrix.train_size": "[8]",
            "matrix.options.axis.bandlimit": "[0.1, null]",
        },
        "conv2d": {"recipe.epochs": 1, "matrix.train_size": "[8]"},
    },
    "cifar10_zero_shot_25_epochs.yaml": {"s4nd": PLAIN_STEPS, "conv2d": PLAIN_STEPS},
    "cifar10_bandlimit.yaml": {
        "s4nd": {"recipe.epochs": 1, "matrix.options.axis.bandlimit": "[0.1]"},
    },
    "cifar10_progressive.yaml": {
        "s4nd": {"recipe.epochs": 1},
        "s4nd_progressive": {"phases": TWO_PHASES % (8, 32)},
        "conv2d": {"recipe.epochs": 1},
        "conv2d_progressive": {"phases": TWO_PHASES % (8, 32)},
    },
    "celeba_zero_shot.yaml": {
        "s4nd": {
            "recipe.epochs": 1, "test_sizes": "[32, 48]", "matrix.train_size": "[32]",
            "matrix.options.axis.bandlimit": "[0.1]",
        },
        "s4nd_base": {"recipe.epochs": 1, "test_sizes": "[32, 48]"},
        "conv2d": {"recipe.epochs": 1, "test_sizes": "[32, 48]", "matrix.train_size": "[32]"},
        "conv2d_base": {"recipe.epochs": 1, "test_sizes": "[32, 48]"},
    },
    "celeba_progressive.yaml": {
        "s4nd": {"recipe.epochs": 1},
        "s4nd_progressive": {"phases": TWO_PHASES % (32, 48), "test_sizes": "[32]"},
        "conv2d": {"recipe.epochs": 1},
        "conv2d_progressive": {"phases": TWO_PHASES % (32, 48), "test_sizes": "[32]"},
    },
}  # fmt: skip


ADOPT = {"image_size": 32}
CONVNEXT = ADOPT | {"options.depths": "[1, 1, 1, 1]", "options.widths": "[8, 8, 8, 8]"}
INFLATE = {"num_frames": 4, "clip_seconds": 0.5, "num_classes": 2, "state": 8}
TUNE = {
    "recipe.epochs": 1, "recipe.batch_size": 4, "recipe.accumulation": 1, "recipe.workers": 0,
    "recipe.precision": "fp32", "decoding_workers": 1,
}  # fmt: skip
DECODE = {"workers": 1, "val_fraction": 0.3}
SCORE = {"execution.workers": 1}
SINGLE = {"clips": DECODE, "finetuned": TUNE, "scores": SCORE, "video_model": INFLATE}
TINY_VIDEO: dict[str, dict[str, dict[str, object]]] = {
    "hmdb51_s4nd.yaml": SINGLE | {"backbone": CONVNEXT, "scores": SCORE | {"frame_rates": "[4]"}},
    "hmdb51_i3d.yaml": SINGLE | {"backbone": CONVNEXT},
    "hmdb51_s3d.yaml": SINGLE | {"backbone": CONVNEXT},
    "hmdb51_inception_i3d.yaml": SINGLE | {"backbone": ADOPT},
    "hmdb51_delta.yaml": SINGLE | {"backbone": CONVNEXT},
    "hmdb51_randaugment.yaml": SINGLE
    | {
        "backbone": CONVNEXT,
        "finetuned": TUNE | {"matrix.augmentation.rand_augment_magnitude": "[3, 9]"},
    },
    "hmdb51_table.yaml": {
        "convnext": CONVNEXT,
        "s4nd_convnext": CONVNEXT,
        "inception": ADOPT,
        "clips": DECODE | {"matrix.split": "[1, 2]"},
        **dict.fromkeys(("inception_i3d", "i3d", "s3d", "s4nd"), INFLATE),
        **{f"{name}_tuned": TUNE for name in ("inception_i3d", "i3d", "s3d", "s4nd")},
        **{f"{name}_scores": SCORE for name in ("inception_i3d", "i3d", "s3d", "s4nd")},
    },
    "weizmann.yaml": {
        "backbone": {"architecture": "timm/test_resnet", "image_size": 32},
        "clips": {"workers": 1},
        "taps": INFLATE,
        "state_spaces": INFLATE | {"matrix.length": "[1, 20]"},
        "tuned_taps": TUNE,
        "tuned_state_spaces": TUNE,
        "scores_taps": SCORE,
        "scores_state_spaces": SCORE,
    },
}
# Frozen batch norm: two processes would otherwise see half a batch each.
TUNE_FROZEN = TUNE | {"matrix.recipe.seed": "[0, 1]", "freeze_batch_norm": True}
for chain in ("digits_", "gesture_", ""):
    TINY_VIDEO.setdefault("motion.yaml" if chain else "jhmdb21.yaml", {}).update(
        {
            f"{chain}backbone": {"architecture": "timm/test_resnet", "image_size": 32},
            f"{chain}clips": {"workers": 1},
            f"{chain}taps": INFLATE | {"matrix.method": "[none, i3d]"},
            f"{chain}state_spaces": INFLATE | {"matrix.length": "[4]"},
            f"{chain}no_order": INFLATE,
            **{
                f"{chain}tuned_{kind}": TUNE_FROZEN for kind in ("taps", "state_spaces", "shuffled")
            },
            **{f"{chain}scores_{kind}": SCORE for kind in ("taps", "state_spaces", "shuffled")},
        }
    )
TINY_VIDEO["motion_learning_rates.yaml"] = {
    "backbone": {"architecture": "timm/test_resnet", "image_size": 32},
    "clips": DECODE,
    "inflated": INFLATE | {"matrix.method": "[s3d, none]"},
    "tuned": TUNE | {"matrix.recipe.lr": "[1e-3]", "freeze_batch_norm": True},
    "scores": SCORE,
}
PROBED = ("digits", "gesture", "jhmdb")
TINY_VIDEO["motion_probes.yaml"] = {
    "backbone": {"architecture": "timm/test_resnet", "image_size": 32},
    **{f"{name}_clips": {"workers": 1} for name in PROBED},
    **{
        f"{name}_features": {"num_frames": 4, "clip_seconds": 0.5, "execution.workers": 1}
        for name in PROBED
    },
    **{
        f"{name}_probes": {
            "width": 8, "state": 8, "recipe.epochs": 1, "recipe.batch_size": 4,
            "matrix.head": "[mean, s4nd]", "matrix.recipe.seed": "[0, 1]",
        }
        for name in PROBED
    },
    **{f"{name}_scores": SCORE for name in PROBED},
}  # fmt: skip
TINY_DEMO: dict[str, dict[str, object]] = {
    "data": {
        "train_videos": 2, "val_videos": 1, "test_videos": 2, "unseen_videos": 3,
        "train_images": 4, "val_images": 2,
    },
    "backbone": {"recipe.epochs": 1, "recipe.batch_size": 8, "recipe.workers": 0},
    "clips": {"workers": 1},
    "model": {"recipe.epochs": 1, "recipe.batch_size": 8, "decoding_workers": 1},
    "scores": {"execution.workers": 1},
    "predictions": {"execution.workers": 1},
}  # fmt: skip
TINY = TINY_2D | TINY_VIDEO | {"demo.yaml": TINY_DEMO}


def tiny(name: str) -> list[str]:
    """The `--set` values of one pipeline."""
    return [
        f"{stage}.{key}={value}"
        for stage, changes in TINY[name].items()
        for key, value in settings(name, stage, changes).items()
    ]


def settings(name: str, stage: str, changes: dict[str, object]) -> dict[str, object]:
    """The changes of one stage, and what all tiny runs of its family share."""
    if name.startswith("cifar10_"):
        return TINY_RECIPE | TINY_ISOTROPIC | changes
    if name.startswith("celeba_"):
        convolution = {} if stage.startswith("s4nd") else {"options.stem_kernel": 16}
        return TINY_RECIPE | TINY_CONVNEXT | CELEBA | convolution | changes
    return changes
