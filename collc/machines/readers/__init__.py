"""One file for each group of import kinds: their records and readers. Each file of this folder is found by itself."""
