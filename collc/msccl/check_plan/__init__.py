"""The check of MSCCL++ execution plans (JSON): reads them back from disk and interprets them."""

from collc.msccl.check_plan.verdict import PlanSummary, check_plan

__all__ = ["PlanSummary", "check_plan"]
