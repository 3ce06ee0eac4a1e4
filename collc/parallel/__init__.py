"""Many independent tasks: on processes of this machine or on a Dask cluster, with a journal of what is done."""
