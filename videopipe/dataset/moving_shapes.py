"""Generated videos whose class is the motion of a shape; a single frame does not show the class.

The background is periodic: a shape that leaves on the left enters on the right. Position, log size
and angle start uniformly at random, each on a circle, and a class moves exactly one of them. A
uniform value on a circle stays uniform when it moves, so at any time the frames of all classes have
the same distribution.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Motion = Literal["left", "right", "up", "down", "clockwise", "counter_clockwise", "grow", "shrink"]
Picture = NDArray[np.uint8]  # (height, width, 3), RGB

# What a motion adds per second: (x, y, angle, log size), in units of `Scene.speed`.
MOTIONS: dict[Motion, tuple[float, float, float, float]] = {
    "left": (-1, 0, 0, 0),
    "right": (1, 0, 0, 0),
    "up": (0, -1, 0, 0),
    "down": (0, 1, 0, 0),
    "clockwise": (0, 0, 1, 0),
    "counter_clockwise": (0, 0, -1, 0),
    "grow": (0, 0, 0, 1),
    "shrink": (0, 0, 0, -1),
}

# Corners around (0, 0). No shape has a rotational symmetry of small angle.
SHAPES: dict[str, tuple[tuple[float, float], ...]] = {
    "triangle": ((0, -1), (0.8, 0.8), (-0.8, 0.8)),
    "bar": ((-1, -0.25), (1, -0.25), (1, 0.25), (-1, 0.25)),
    "hook": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (0.45, 0.9), (0.45, -0.45), (-0.9, -0.45)),
    "comb": ((-1, -0.9), (1, -0.9), (1, 0.9), (0.7, 0.9), (0.7, -0.5), (0.15, -0.5), (0.15, 0.9),
             (-0.15, 0.9), (-0.15, -0.5), (-0.7, -0.5), (-0.7, 0.9), (-1, 0.9)),
}  # fmt: skip

SMALLEST, LARGEST = 0.2, 0.42  # radius as a share of the picture
TRAVEL, TURN, GROWTH = 0.35, 0.3, 0.55  # at speed 1: pictures, turns, size ranges per second
SUPERSAMPLING = 3  # drawn larger and scaled down, for smooth edges


@dataclass(frozen=True)
class Scene:
    """A video without its motion. Positions, angle and size are on circles [0, 1)."""

    shape: str
    x: float
    y: float
    angle: float
    log_size: float
    speed: float
    colour: tuple[int, int, int]
    background: Picture


def draw_scene(random: np.random.Generator, size_pixels: int) -> Scene:
    """A random scene: shape, place, size, angle, colours, background and speed."""
    x, y, angle, log_size = random.random(4)
    return Scene(
        shape=str(random.choice(list(SHAPES))),
        x=float(x),
        y=float(y),
        angle=float(angle),
        log_size=float(log_size),
        speed=float(random.uniform(0.8, 1.3)),
        colour=_bright(random),
        background=_background(random, size_pixels),
    )


def state_at(scene: Scene, motion: Motion, seconds: float) -> tuple[float, float, float, float]:
    """(x, y, angle, log size) at a time, each on its circle [0, 1)."""
    dx, dy, turn, growth = (scene.speed * seconds * amount for amount in MOTIONS[motion])
    return (
        (scene.x + TRAVEL * dx) % 1,
        (scene.y + TRAVEL * dy) % 1,
        (scene.angle + TURN * turn) % 1,
        (scene.log_size + GROWTH * growth) % 1,
    )


def frames_of(
    scene: Scene, motion: Motion, *, num_frames: int, frame_rate: float
) -> Iterator[Picture]:
    """The frames of a video, (height, width, 3)."""
    for index in range(num_frames):
        yield picture_of(scene, *state_at(scene, motion, index / frame_rate))


def picture_of(scene: Scene, x: float, y: float, angle: float, log_size: float) -> Picture:
    """The scene with its shape in one state, drawn with periodic edges."""
    size = scene.background.shape[0]
    canvas = size * SUPERSAMPLING
    radius = canvas * SMALLEST * (LARGEST / SMALLEST) ** log_size
    turn = 2 * math.pi * angle
    corners = [
        (
            radius * (math.cos(turn) * u - math.sin(turn) * v) + x * canvas,
            radius * (math.sin(turn) * u + math.cos(turn) * v) + y * canvas,
        )
        for u, v in SHAPES[scene.shape]
    ]
    mask = Image.new("L", (canvas, canvas))
    draw = ImageDraw.Draw(mask)
    for across in (-canvas, 0, canvas):
        for down in (-canvas, 0, canvas):
            draw.polygon([(u + across, v + down) for u, v in corners], fill=255)
    coverage = np.asarray(mask.resize((size, size), Image.Resampling.BOX))[..., None] / 255.0
    blended = scene.background * (1 - coverage) + np.array(scene.colour) * coverage
    return np.asarray(np.round(blended), dtype=np.uint8)


def _background(random: np.random.Generator, size: int) -> Picture:
    """A plain, shaded, striped or cloudy background of two dark colours."""
    one, other = random.integers(0, 110, (2, 3)).astype(float)
    down, across = np.mgrid[0:size, 0:size] / size
    kind = random.integers(4)
    if kind == 0:
        mix = np.zeros((size, size))
    elif kind == 1:
        direction = random.uniform(0, 2 * math.pi)
        mix = 0.5 + 0.5 * (np.cos(direction) * (across - 0.5) + np.sin(direction) * (down - 0.5))
    elif kind == 2:
        waves = random.integers(-4, 5, 2)
        phase = random.uniform(0, 2 * math.pi)
        mix = 0.5 + 0.3 * np.sin(2 * math.pi * (waves[0] * across + waves[1] * down) + phase)
    else:
        coarse = Image.fromarray(random.integers(0, 256, (5, 5)).astype(np.uint8))
        mix = np.asarray(coarse.resize((size, size), Image.Resampling.BICUBIC)) / 255.0
    noise = random.normal(0, 4, (size, size, 1))
    ground = one + (other - one) * 0.6 * mix[..., None] + noise
    return np.clip(np.round(ground), 0, 255).astype(np.uint8)


def _bright(random: np.random.Generator) -> tuple[int, int, int]:
    """A colour that differs from every background."""
    red, green, blue = random.integers(150, 256, 3)
    return int(red), int(green), int(blue)
