"""Cost models: how the costs of pairs follow from features; preprocessing."""
