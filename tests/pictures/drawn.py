"""Readers of SVG for the tests: elements, and texts that overlap."""

from __future__ import annotations

from itertools import combinations
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from collc.pictures.picture import Picture, text_width

SVG = "{http://www.w3.org/2000/svg}"
_SIZES = {"small": 10.5, "tiny": 9.0}


def root_of(picture: Picture) -> Element:
    """The picture as a file of its own, parsed."""
    return ElementTree.fromstring(picture.file())


def texts(picture: Picture) -> list[str]:
    return [node.text or "" for node in root_of(picture).iter(f"{SVG}text")]


def tips(picture: Picture) -> list[str]:
    """The tooltips of the marks."""
    return [group.findtext(f"{SVG}title") or "" for group in root_of(picture).iter(f"{SVG}g") if group.get("class")]


def overlaps(picture: Picture) -> list[tuple[str, str]]:
    """Pairs of upright texts whose boxes overlap, and texts that leave the picture."""
    boxes = []
    for node in root_of(picture).iter(f"{SVG}text"):
        if node.get("transform"):
            continue
        classes = (node.get("class") or "").split()
        size = next((_SIZES[name] for name in classes if name in _SIZES), 12.0)
        width = text_width(node.text or "", size) * 0.9  # the estimate is for the widest font
        x = float(node.get("x", 0)) - width * (1 if "end" in classes else 0.5 if "mid" in classes else 0)
        y = float(node.get("y", 0))
        boxes.append((x, y - 0.75 * size, x + width, y + 0.2 * size, node.text or ""))
    found = [
        (a[4], b[4]) for a, b in combinations(boxes, 2) if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
    ]
    limits = (picture.width, picture.height)
    return found + [
        (box[4], "edge") for box in boxes if box[0] < -1 or box[2] > limits[0] + 1 or box[3] > limits[1] + 1
    ]
