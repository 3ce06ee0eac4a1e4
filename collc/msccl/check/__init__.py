"""The check of MSCCL files: reads them back from disk, and shares no code with the writer."""

from collc.msccl.check.collectives import ExpectedResult, WantedChunk
from collc.msccl.check.expected import expected_of
from collc.msccl.check.verdict import Summary, check_file, contract_of

__all__ = ["ExpectedResult", "Summary", "WantedChunk", "check_file", "contract_of", "expected_of"]
