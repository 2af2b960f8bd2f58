"""How a broken text file has to fail."""

import pytest

from clusterfug.io.files import read


@pytest.fixture
def assert_fault_is_named(tmp_path):
    """Write a text and read it: the error is one line that names the fault."""

    def assert_fault_is_named(name, text, message):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=message) as caught:
            read(tmp_path / name)
        assert "\n" not in str(caught.value)

    return assert_fault_is_named
