"""Problems too large to solve at once: in shards, in this process or on many machines.

Contraction adds features, so partial solutions compose exactly: a shard (consecutive items) is solved and
contracted to the sums of its clusters, and several of these *pools* together are a problem that is solved
and contracted in turn, until one is left. Then items move against the sums of all clusters, shard by shard,
and clusters join, until neither improves the clustering.
"""
