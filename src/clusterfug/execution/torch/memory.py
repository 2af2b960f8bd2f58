"""Memory that a run needs on the device, and the number of streamed items that fit there at a time."""

_BYTES_PER_ITEM = 1200  # of neighbour lists, labels and costs
_STREAMED_BYTES_PER_ITEM = 400  # the same, without neighbour lists
_MIN_PART = 1 << 14  # items that are on the device at a time


def resident_bytes(n: int, d: int, itemsize: int) -> int:
    """Return the bytes of a run with all features on the device.

    Per item: features, their copy in low precision, and sums of clusters, of which there may be n, four
    times in float64 (contracted, as moving clusters, before a step, and as an intermediate result).
    """
    return n * (d * (itemsize + 2 + 32) + _BYTES_PER_ITEM)


def streamed_bytes(n: int, d: int) -> int:
    """Return the bytes of a run with as few features on the device as possible."""
    return _STREAMED_BYTES_PER_ITEM * n + 2 * resident_bytes(min(n, _MIN_PART), d, 8)


def streamed_part_size(n: int, d: int, limit: float) -> int:
    """Return how many items' features are on the device at a time; clusters need as much memory again."""
    return max(_MIN_PART, int((limit - _STREAMED_BYTES_PER_ITEM * n) / 2) // resident_bytes(1, d, 8))
