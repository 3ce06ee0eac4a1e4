"""collc: schedules for collective communication, verified and written for real runtimes.

docs/python.md shows the Python API that is exported here. Each name is imported when it is first used, so that
`import collc` alone is fast.
"""

from __future__ import annotations

from importlib import import_module

from collc.version import __version__

TYPE_CHECKING = False  # `typing` has one too, but Ctrl-C is not handled yet while it loads
if TYPE_CHECKING:
    from collc.api.client import Client
    from collc.api.compiling import compile, compile_text, solve_designs  # noqa: A004
    from collc.api.planning import Planner
    from collc.api.programs import Demand, Network, Program
    from collc.api.schedules import LoweredProgram, load, lower, run, verify
    from collc.application.compile.compile_report import CompileReport, ScheduleReport
    from collc.application.design.designs import DesignReport, DesignsReport
    from collc.application.run.file_runs import FileRuns
    from collc.application.verify.file_report import FileReport
    from collc.base.diagnostics import CheckFailed, CollcError, NoSchedule, SourceError, UsageError
    from collc.ten.module import Module
    from collc.ten.schedule import Schedule

__all__ = [
    "CheckFailed",
    "Client",
    "CollcError",
    "CompileReport",
    "Demand",
    "DesignReport",
    "DesignsReport",
    "FileReport",
    "FileRuns",
    "LoweredProgram",
    "Module",
    "Network",
    "NoSchedule",
    "Planner",
    "Program",
    "Schedule",
    "ScheduleReport",
    "SourceError",
    "UsageError",
    "__version__",
    "compile",
    "compile_text",
    "load",
    "lower",
    "run",
    "solve_designs",
    "verify",
]

_MODULES = {
    "CheckFailed": "collc.base.diagnostics",
    "Client": "collc.api.client",
    "CollcError": "collc.base.diagnostics",
    "CompileReport": "collc.application.compile.compile_report",
    "Demand": "collc.api.programs",
    "DesignReport": "collc.application.design.designs",
    "DesignsReport": "collc.application.design.designs",
    "FileReport": "collc.application.verify.file_report",
    "FileRuns": "collc.application.run.file_runs",
    "LoweredProgram": "collc.api.schedules",
    "Module": "collc.ten.module",
    "Network": "collc.api.programs",
    "NoSchedule": "collc.base.diagnostics",
    "Planner": "collc.api.planning",
    "Program": "collc.api.programs",
    "Schedule": "collc.ten.schedule",
    "ScheduleReport": "collc.application.compile.compile_report",
    "SourceError": "collc.base.diagnostics",
    "UsageError": "collc.base.diagnostics",
    "compile": "collc.api.compiling",
    "compile_text": "collc.api.compiling",
    "load": "collc.api.schedules",
    "lower": "collc.api.schedules",
    "run": "collc.api.schedules",
    "solve_designs": "collc.api.compiling",
    "verify": "collc.api.schedules",
}
"""The module that defines each exported name."""


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is not None:
        value: object = getattr(import_module(module), name)
    elif not name.startswith("_") and name in _collectives():
        value = import_module("collc.api.programs").collective(name)
    else:
        raise AttributeError(f"module 'collc' has no attribute '{name}'", name=name, obj=import_module("collc"))
    globals()[name] = value
    return value


def _collectives() -> list[str]:
    """The collectives of the standard library; each is a function that makes a program."""
    return import_module("collc.api.programs").collective_names()


def __dir__() -> list[str]:
    return [*__all__, *_collectives()]
