"""Which device is which NPU: TPUs know the coordinates of their chips in the torus."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from collc.runtime.run_program import RunProgram

Place = tuple[int, ...]


def order_of(program: RunProgram, devices: Sequence[Any]) -> list[Any]:
    """The devices by rank: TPUs by their places, others as given; as many as there are ranks.

    A TPU has `coords`, (x, y, z) of its chip, and maybe `core_on_chip`; the indices of its NPU are [z, y, x] and the
    core. Dimensions of size 1 do not count, and places are counted from the first one. Raises ValueError if places and
    indices differ, or if messages go between chips that are no neighbours in the torus.
    """
    if not all(hasattr(device, "coords") for device in devices):
        return list(devices)
    places = _grid([(*reversed(device.coords), getattr(device, "core_on_chip", 0)) for device in devices])
    wanted = _grid([tuple(int(index) for index in re.findall(r"\d+", name)) for name in program.npus])
    device_at = dict(zip(places, devices, strict=True))
    if len(device_at) < len(devices) or device_at.keys() != set(wanted):
        own, other = (
            " x ".join(str(max(axis) + 1) for axis in zip(*grid, strict=True)) or "1" for grid in (places, wanted)
        )
        raise ValueError(f"the TPUs are a grid of {own}, the NPUs of {program.name} one of {other}")
    size = [max(axis) + 1 for axis in zip(*wanted, strict=True)]
    ends: list[tuple[int, int]] = program.connections.key[:, :2].tolist()
    for sender, receiver in ends:
        steps = [abs(a - b) for a, b in zip(wanted[sender], wanted[receiver], strict=True)]
        hops = [min(step, length - step) for step, length in zip(steps, size, strict=True)]
        if sum(hops) > 1:
            pair = f"{program.npus[sender]} -> {program.npus[receiver]}"
            raise ValueError(f"{program.name} sends over {pair}, which are no neighbours in the torus of the TPUs")
    return [device_at[place] for place in wanted]


def _grid(places: list[Place]) -> list[Place]:
    """Places without dimensions in which they do not differ, counted from 0, as far as all have these dimensions."""
    axes = [axis for axis in zip(*places, strict=False) if min(axis) < max(axis)]
    return list(zip(*([index - min(axis) for index in axis] for axis in axes), strict=True)) or [()] * len(places)
