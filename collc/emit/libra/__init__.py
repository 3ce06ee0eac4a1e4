"""A design as constraints for LIBRA and for other solvers: a set of files, all written from one `LibraModel`."""
