"""The independent check of MSCCL files: reads them back from disk and shares no code with the writer."""

from collc.msccl.check.collectives import Expected, Want
from collc.msccl.check.demanded import expected_of
from collc.msccl.check.verdict import FileVerdict, Summary, check_file, contract_of

__all__ = ["Expected", "FileVerdict", "Summary", "Want", "check_file", "contract_of", "expected_of"]
