"""The interpreter of MSCCL programs: one order of events, any kind of data, any transport of messages, or times."""
