"""How far apart colours look, to most people and to people who do not see all colours, and how well they stand out."""

from __future__ import annotations

import numpy as np

# Machado, Oliveira and Fernandes (2009): what linear RGB becomes for people without one kind of cones.
VIEWS = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
# Ottosson (2020): linear RGB to cones, their cube roots to OKLab.
CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def linear(colour):
    """Linear RGB of #rrggbb."""
    parts = np.array([int(colour[start : start + 2], 16) for start in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def distance(first, second, view):
    """In OKLab, where about 0.02 can just be told apart side by side."""
    points = [LAB @ np.cbrt(CONES @ np.clip(VIEWS[view] @ linear(colour), 0, 1)) for colour in (first, second)]
    return float(np.linalg.norm(points[0] - points[1]))


def contrast(first, second):
    """As WCAG defines it: from 1 to 21."""
    low, high = sorted(float(np.array([0.2126, 0.7152, 0.0722]) @ linear(colour)) for colour in (first, second))
    return (high + 0.05) / (low + 0.05)
