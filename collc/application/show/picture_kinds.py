"""The single pictures that `collc show --picture` draws, one record each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collc.pictures.picture import Picture


@dataclass(frozen=True, slots=True)
class PictureKind:
    """A picture.

    name: as `--picture` takes it. help: what it shows. of: what `draw` receives: the "network" (`Network`), the
    "transfers" (`LinkUse`), the "comparison" of a schedule with its alternatives (`Subject`), a "design"
    (`DesignSubject`), or the "fallbacks" of a network (`FallbackSubject`). draw: MODULE:FUNCTION, which is imported
    when the picture is drawn; it returns a `Picture`, or None if there is nothing to draw.
    """

    name: str
    help: str
    of: Literal["network", "transfers", "comparison", "design", "fallbacks"]
    draw: str

    def function(self) -> Callable[[Any], Picture | None]:
        """The function that draws it."""
        return resolve_name(self.draw)


_SCHEDULES: Final = "collc.pictures.schedule_pictures"
_REPORT: Final = "collc.application.show.report_page"
_DESIGNS: Final = "collc.application.design.design_pages"
_FALLBACKS: Final = "collc.application.show.fallback_page"

PICTURE_KINDS: Final = {
    kind.name: kind
    for kind in (
        PictureKind("topology", "devices and links", "network", f"{_REPORT}:topology_picture"),
        PictureKind("ten", "transfers over time, between devices", "transfers", f"{_SCHEDULES}:ten_picture"),
        PictureKind("gantt", "transfers over time, on links", "transfers", f"{_SCHEDULES}:gantt_picture"),
        PictureKind("heatmap", "bytes from each device to each other one", "transfers", f"{_SCHEDULES}:load_map"),
        PictureKind("load", "bytes on each link of the topology", "transfers", f"{_REPORT}:load_picture"),
        PictureKind("utilisation", "links in use over time", "comparison", f"{_REPORT}:utilisation_picture"),
        PictureKind("bandwidths", "bandwidth per dimension", "design", f"{_DESIGNS}:bandwidths_picture"),
        PictureKind("budgets", "bandwidth per dimension over budgets", "design", f"{_DESIGNS}:budgets_picture"),
        PictureKind("speedup", "speed-up over budgets", "design", f"{_DESIGNS}:speedup_picture"),
        PictureKind("performance", "performance per cost over budgets", "design", f"{_DESIGNS}:performance_picture"),
        PictureKind("classes", "classes of failures on the network", "fallbacks", f"{_FALLBACKS}:classes_picture"),
        PictureKind("slowdown", "time after a failure, by class", "fallbacks", f"{_FALLBACKS}:slowdown_picture"),
        PictureKind("failures", "slowdown of a long run over failures", "fallbacks", f"{_FALLBACKS}:failures_picture"),
    )
}
"""All pictures by name, in the order of `--help`."""
