import sys

import pytest

from parity.errors import InputError
from parity.python_file import import_file


def test_two_files_of_one_name_do_not_meet_and_each_sees_its_neighbours(tmp_path):
    for folder, number in (("one", 1), ("two", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"beside_{folder}.py").write_text(f"number = {number}\n")
        (tmp_path / folder / "model.py").write_text(f"from beside_{folder} import number\n")
    before = list(sys.path)
    assert [import_file(tmp_path / folder / "model.py").number for folder in ("one", "two")] == [1, 2]
    assert sys.path == before


def test_what_the_code_raises_is_left_to_the_caller_and_nothing_half_done_stays(tmp_path):
    (tmp_path / "broken.py").write_text("raise RuntimeError('broken')\n")
    before, modules = list(sys.path), set(sys.modules)
    with pytest.raises(RuntimeError, match="broken"):
        import_file(tmp_path / "broken.py")
    assert sys.path == before
    assert set(sys.modules) == modules


def test_a_file_that_is_no_python_is_refused(tmp_path):
    (tmp_path / "model.txt").write_text("")
    with pytest.raises(InputError, match="no Python file"):
        import_file(tmp_path / "model.txt")
