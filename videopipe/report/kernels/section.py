"""The kernels of one checkpoint as a section of a page."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from videopipe.models import load_model
from videopipe.report.kernels import drawing
from videopipe.report.kernels.axes import DrawnAxis, draw_axes, seconds_per_step
from videopipe.report.kernels.basis_functions import basis_functions
from videopipe.report.kernels.space import plane_kernels
from videopipe.report.page import Section


def atlas_section(
    name: str,
    title: str,
    folder: Path,
    before: Path | None = None,
    *,
    bases: bool = True,
    panels: int = 12,
) -> Section:
    """Kernels, responses and lengths of every axis; `before` is the checkpoint before training.

    `bases`: with the functions of every initialisation, which are the same for all models.
    `panels`: layers shown at most, evenly from input to output.
    """
    section = Section(name, title)
    model, card = load_model(folder)
    drawn = draw_axes(model)
    if not drawn:
        section.missing.append(f"{card.architecture} has no S4ND layer, so there are no kernels")
        return section
    earlier = draw_axes(load_model(before)[0]) if before is not None else []
    layers = {one.layer for one in drawn}
    section.text.append(
        f"{len(layers)} layers of {card.architecture}. A kernel holds the weight of each lag: "
        "lag 0 is the sample itself, positive lags are earlier in time, above or to the left."
    )
    lengths = []
    for axis in dict.fromkeys(one.axis for one in drawn):
        after = [one for one in drawn if one.axis == axis]
        matching = _matching(after, [one for one in earlier if one.axis == axis])
        seconds = partial(seconds_per_step, card)
        section.pictures.append(drawing.kernels(name, axis, after, matching, seconds, panels))
        section.pictures.append(drawing.responses(name, axis, after, matching, panels))
        lengths.append(drawing.lengths(name, axis, after, matching))
    section.pictures += lengths  # small pictures, side by side
    section.pictures += plane_kernels(name, model)
    if bases:
        section.pictures.append(basis_functions(name))
    return section


def _matching(after: Sequence[DrawnAxis], before: Sequence[DrawnAxis]) -> dict[str, DrawnAxis]:
    names = {one.layer for one in after}
    return {one.layer: one for one in before if one.layer in names}
