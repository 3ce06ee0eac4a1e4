import os
from pathlib import Path

import pytest

from collc.diagnostics import SourceError, UsageError
from collc.files import drafting, inside


@pytest.mark.parametrize("name", ["", "/tmp/x", "../x", "a/../../x", ".", "a/.."])
def test_names_stay_in_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(SourceError):
        inside(tmp_path, name)


def test_a_link_does_not_lead_out(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "out").symlink_to(tmp_path)
    with pytest.raises(SourceError, match="not a file inside"):
        inside(tmp_path / "in", "out/x.ten")
    assert inside(tmp_path / "in", "sub/x.ten") == tmp_path / "in" / "sub" / "x.ten"


def test_nothing_changes_until_it_is_published(tmp_path: Path) -> None:
    kept = tmp_path / "a.ten"
    kept.write_text("before")
    with drafting() as draft:
        draft.new(kept).write_text("after")
        assert kept.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["a.ten"]
    assert kept.read_text() == "before"
    with drafting() as draft:
        draft.new(kept).write_text("after")
        draft.new(tmp_path / "new" / "b.ten").write_text("b")
        assert draft.publish() == [kept, tmp_path / "new" / "b.ten"]
    assert kept.read_text() == "after"
    assert (tmp_path / "new" / "b.ten").read_text() == "b"


def test_files_are_as_readable_as_others(tmp_path: Path) -> None:
    with drafting() as draft:
        draft.new(tmp_path / "a").write_text("")
        draft.publish()
    (tmp_path / "b").write_text("")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


@pytest.mark.skipif(os.geteuid() == 0 if hasattr(os, "geteuid") else True, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with drafting() as draft, pytest.raises(UsageError, match="cannot write"):
        draft.new(tmp_path / "a.ten")


def test_a_file_in_the_way_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with drafting() as draft, pytest.raises(UsageError, match="cannot write"):
        draft.new(tmp_path / "a" / "b.ten")
