"""What executes programs of ranks: one order of events, any kind of data, any transport of messages.

Nothing here imports more than NumPy and the standard library, so that a worker starts without the compiler.
"""
