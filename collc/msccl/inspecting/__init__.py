"""What is in an MSCCL file or MSCCL++ plan, for people."""
