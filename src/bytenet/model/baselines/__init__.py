"""The rows of Table 1 that are no ByteNets, and one that came after it: one file a paper."""
