"""Network options from the data and from the user."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pretrained_2d.networks.backbones import BACKBONES


def network_options(
    architecture: str, given: Mapping[str, Any], num_classes: int, image_size: int
) -> dict[str, Any]:
    """Options for `build`: what follows from the data, then what is given.

    `axis` and `time_axis` name differences from the network's defaults, not whole axes.
    """
    options: dict[str, Any] = {"num_classes": num_classes}
    defaults: dict[str, Any] = {}
    if architecture in BACKBONES:
        defaults = {
            item.name: item.default_factory()  # type: ignore[operator]
            for item in fields(BACKBONES[architecture].config)
            if item.name in ("axis", "time_axis")
        }
        options["image_size"] = image_size
    options |= given
    for name in ("axis", "time_axis"):
        if name in given and name in defaults:
            options[name] = {**defaults[name], **given[name]}
    return options
