"""How much memory a run needs on the device, and how many items fit there at a time."""

_PER_ITEM = 1200  # bytes of neighbour lists, labels, costs
_STREAMED = 400  # the same, without neighbour lists
_LEAST = 1 << 14  # items that are on the device at a time, at least


def resident_bytes(n: int, d: int, itemsize: int) -> int:
    """With all features on the device: as they are, in low precision, and sums of as many clusters.

    These are there four times in float64: contracted, as clusters that move, before a step, and in between.
    """
    return n * (d * (itemsize + 2 + 32) + _PER_ITEM)


def streamed_bytes(n: int, d: int) -> int:
    """With as few features on the device as possible."""
    return _STREAMED * n + 2 * resident_bytes(min(n, _LEAST), d, 8)


def part_of(n: int, d: int, limit: float) -> int:
    """Items of streamed features that are on the device at a time; the clusters need as much again."""
    return max(_LEAST, int((limit - _STREAMED * n) / 2) // resident_bytes(1, d, 8))
