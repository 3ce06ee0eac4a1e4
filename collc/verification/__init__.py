"""Schedule -> verdict: the check of schedules, and proofs with Z3."""

from collc.verification.schedule_check import verify_schedule
from collc.verification.verdict import CHECKS, Verdict

__all__ = ["CHECKS", "Verdict", "verify_schedule"]
