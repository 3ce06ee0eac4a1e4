"""What is mutated, and the tests that must fail: for each file the smallest set that covers it, fast ones first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHECKS = (
    "tests/verification/test_switch_rules.py",
    "tests/verification/test_schedule_check.py",
)
PROOF = ("tests/verification/test_switch_rules.py", "tests/verification/test_prove.py", "tests/command/test_prove.py")
OPTIMAL = ("tests/smt", "tests/verification/test_optimal.py", "tests/command/test_prove.py")
MSCCL = (
    "tests/msccl/test_check.py",
    "tests/msccl/test_check_runtimes.py",
    "tests/msccl/test_check_sizes.py",
    "tests/msccl/test_scanner.py",
    "tests/msccl/test_check_mutations.py",
)
PLAN = (
    "tests/msccl/test_check_plan.py",
    "tests/msccl/test_plan_runtime.py",
    "tests/msccl/test_plan_buffers.py",
    "tests/msccl/test_plan_text.py",
    "tests/msccl/test_plan_races.py",
    "tests/msccl/test_plan_mutations.py",
)
BOUNDS = (
    "tests/synthesis/test_bounds.py",
    "tests/synthesis/test_bounds_parts.py",
    "tests/synthesis/test_bounds_property.py",
)
EVALUATE = (
    "tests/source/test_limits.py",
    "tests/source/test_codes_semantic.py",
    "tests/source/test_elaborate.py",
)


@dataclass(frozen=True)
class Target:
    """Files, given as patterns below the root, and the tests that cover them."""

    patterns: tuple[str, ...]
    tests: tuple[str, ...]

    def files(self) -> Iterator[str]:
        for pattern in self.patterns:
            for path in sorted(ROOT.glob(pattern)):
                if path.name != "__init__.py":
                    yield str(path.relative_to(ROOT))


V = "collc/verification"
TARGETS: dict[str, tuple[Target, ...]] = {
    "verification": (
        Target(
            tuple(
                f"{V}/{name}.py"
                for name in (
                    "chunk_check",
                    "schedule_check",
                    "copy_replay",
                    "valid_transfers",
                    "verdict",
                )
            ),
            CHECKS,
        ),
        Target((f"{V}/prove.py", f"{V}/property_proof/*.py"), PROOF),
        Target((f"{V}/optimal.py",), OPTIMAL),
    ),
    "smt": (Target(("collc/smt/*.py",), OPTIMAL),),
    "msccl_check": (Target(("collc/msccl/check/*.py",), MSCCL),),
    "msccl_check_plan": (Target(("collc/msccl/check_plan/*.py",), PLAN),),
    "bounds": (Target(("collc/synthesis/bounds/*.py",), BOUNDS),),
    "transform": (Target(("collc/ten/transform.py",), ("tests/ten/test_transform.py",)),),
    "evaluate": (Target(("collc/source/elaboration/evaluate.py",), EVALUATE),),
}
