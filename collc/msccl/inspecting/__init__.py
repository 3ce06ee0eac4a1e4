"""The contents of MSCCL files and MSCCL++ plans in tables and pictures."""
