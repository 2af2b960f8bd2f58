"""Tables of Apache Arrow: .parquet, .arrow and .feather files to arrays, all rows or a range of them."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug.io.broken import broken_is_named

ENDINGS = (".parquet", ".arrow", ".feather")
BATCH_ROWS = 1 << 14  # rows of a large group that are decoded at a time


def require_pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.feather
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("parquet and arrow files need pyarrow: pip install 'clusterfug[io]'") from error
    return pyarrow


class Table:
    """A file of rows in groups, which are read on request."""

    def __init__(self, path: Path) -> None:
        self.path, self._arrow = path, require_pyarrow()
        with broken_is_named(path):
            if path.suffix.lower() == ".parquet":
                self._file = self._arrow.parquet.ParquetFile(path, memory_map=True)
                schema, count = self._file.schema_arrow, self._file.num_row_groups
                self._groups = [self._file.metadata.row_group(at).num_rows for at in range(count)]
            else:
                self._file = self._arrow.ipc.open_file(self._arrow.memory_map(str(path)))
                schema, count = self._file.schema, self._file.num_record_batches
                self._groups = [self._file.get_batch(at).num_rows for at in range(count)]
            names = [name for name in schema.names if not name.startswith("__index_level_")]
            if min(self._groups, default=0) < 0:
                raise ValueError("a negative number of rows")
        self._schema = schema
        twice = next((name for name, times in Counter(names).items() if times > 1), None)
        if twice is not None:
            raise ValueError(f"{path} has several columns named {twice!r}: rename or remove them")
        types = self._arrow.types
        is_vector = (types.is_list, types.is_large_list, types.is_fixed_size_list)
        vectors = [name for name in names if any(test(schema.field(name).type) for test in is_vector)]
        self._vectors = bool(vectors)
        self._names = ["features" if "features" in vectors else vectors[0]] if vectors else names
        if not self._names or not len(self):
            raise ValueError(f"{path} holds no numbers")

    def __len__(self) -> int:
        return int(sum(self._groups))

    def read(self, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows start..stop-1 as an array."""
        stop = len(self) if stop is None else stop
        ends = np.cumsum(self._groups)
        begins = ends - self._groups
        if stop > len(self):
            raise ValueError(f"{self.path} has only {len(self)} rows, not {stop} or more: it has changed")
        wanted = [int(at) for at in np.flatnonzero((begins < stop) & (ends > start))]
        with broken_is_named(self.path):
            batches = list(self._batches(wanted, start - int(begins[wanted[0]]), stop - start))
            table = self._arrow.Table.from_batches(batches).select(self._names)
        return self._array(table, start)

    def _batches(self, groups: list[int], skip: int, rows: int) -> Iterator[Any]:
        """Yield `rows` rows of some groups after the first `skip`; a group may be larger than memory."""
        if self.path.suffix.lower() == ".parquet":
            batches = self._file.iter_batches(BATCH_ROWS, groups, self._names)
        else:
            batches = (self._file.get_batch(at) for at in groups)
        for batch in batches:
            batch.validate(full=True)  # before offsets and lengths in the file are trusted
            part = batch.slice(skip, rows)
            skip -= min(skip, len(batch))
            rows -= len(part)
            if len(part):
                yield part
            if not rows:
                return

    def _array(self, table: Any, start: int) -> NDArray[Any]:
        types = self._arrow.types
        for name in self._names:
            empty = table[name].is_null().to_numpy()
            if empty.any():
                row = start + int(empty.argmax())
                raise ValueError(f"{self.path}: column {name!r} has an empty cell in row {row}")
        if self._vectors:
            column = table[self._names[0]].combine_chunks()
            values = column.flatten().to_numpy(zero_copy_only=False)
            fixed = types.is_fixed_size_list(column.type)
            if not fixed and len(np.unique(np.diff(column.offsets.to_numpy()))) > 1:
                raise ValueError(f"{self.path}: the vectors in column {self._names[0]!r} differ in length")
            return values.reshape(len(column), -1)
        for name in self._names:
            kind = self._schema.field(name).type
            if not (types.is_floating(kind) or types.is_integer(kind)):
                raise ValueError(f"{self.path}: column {name!r} holds {kind}, not numbers; leave it out")
        return np.column_stack([table[name].to_numpy() for name in self._names])


def write(path: Path, name: str, array: NDArray[Any], metadata: dict[str, str] | None = None) -> None:
    """Write a table of one column: numbers, or vectors."""
    arrow = require_pyarrow()
    column = arrow.array(np.ascontiguousarray(array).ravel())
    if array.ndim == 2:
        column = arrow.FixedSizeListArray.from_arrays(column, array.shape[1])
    arrow.parquet.write_table(arrow.table({name: column}).replace_schema_metadata(metadata), path)


def read_metadata(path: Path) -> dict[str, str]:
    """Return the metadata of a .parquet file."""
    with broken_is_named(path):
        found = require_pyarrow().parquet.read_schema(path).metadata or {}
    return {key.decode(errors="replace"): value.decode(errors="replace") for key, value in found.items()}
