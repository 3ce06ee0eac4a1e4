"""The machine code of kernels comes only from folders that nobody else can write."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import collc
from collc.base.trusted_folders import is_trusted

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders have no modes")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A folder in a folder, both closed to others; the code is elsewhere."""
    folder = tmp_path / "home" / "cache"
    folder.mkdir(parents=True)
    for path in (folder, folder.parent):
        path.chmod(0o755)
    return folder


def test_a_folder_that_others_cannot_write(cache: Path) -> None:
    assert is_trusted(cache)
    assert is_trusted(cache / "new" / "newer")


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o1777])
def test_a_folder_that_all_can_write(cache: Path, mode: int) -> None:
    cache.chmod(mode)
    assert not is_trusted(cache)


def test_a_folder_that_others_can_replace(cache: Path) -> None:
    cache.parent.chmod(0o777)
    assert not is_trusted(cache)
    assert not is_trusted(cache / "new")
    cache.parent.chmod(0o1777)
    assert is_trusted(cache)


def test_a_link_is_judged_by_the_folder_that_it_leads_to(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(cache)
    cache.chmod(0o777)
    assert not is_trusted(tmp_path / "link")


def test_a_folder_of_someone_else(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        os.chown(cache, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert not is_trusted(cache, Path("/usr"))


def test_whoever_may_change_the_code_may_change_the_cache(tmp_path: Path) -> None:
    code = tmp_path / "collc"
    cache = code / "kernels" / "__pycache__"
    cache.mkdir(parents=True)
    for path in (tmp_path, code, cache.parent, cache):
        path.chmod(0o755)
    assert is_trusted(cache, code)
    cache.chmod(0o777)
    assert not is_trusted(cache, code)
    cache.chmod(0o775)
    (code / "kernels").chmod(0o775)
    code.chmod(0o775)
    assert is_trusted(cache, code)
    for path in (code, cache.parent, cache):  # as all files are on some mounted disks
        path.chmod(0o777)
    assert is_trusted(cache, code)


COMPILE = """
import numpy as np
from collc.kernels.compiled import compile_kernel
from collc.kernels.first_gaps import first_gaps
start = np.zeros(2, np.int64)
compile_kernel(first_gaps)(np.array([0, 1]), 3, np.array([5]), np.array([9]), start)
print(start.tolist())
"""


@pytest.mark.slow
def test_code_in_an_open_folder_is_not_run(cache: Path) -> None:
    def run() -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
        return subprocess.run(
            [sys.executable, "-c", COMPILE], capture_output=True, text=True, env=environment, check=True
        )

    assert "can write" not in run().stderr
    files = [path for path in cache.rglob("*") if path.is_file()]
    assert files
    before = {path: path.read_bytes() for path in files}
    cache.chmod(0o777)
    files[0].write_bytes(b"not machine code")
    done = run()
    assert done.stdout == "[0, 9]\n"
    assert f"others can write to {cache}" in done.stderr
    assert {path: path.read_bytes() for path in files} == before | {files[0]: b"not machine code"}


@pytest.mark.slow
def test_a_kernel_is_compiled_again_if_one_that_it_calls_has_changed(cache: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(Path(collc.__file__).parent, copied / "collc", ignore=shutil.ignore_patterns("__pycache__"))
    kernels = copied / "collc" / "kernels"
    (kernels / "outer.py").write_text("from collc.kernels.inner import inner\ndef outer(x): return inner(x)\n")
    code = "from collc.kernels.compiled import compile_kernel; from collc.kernels.outer import outer\n"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(copied)}
    for number in (3, 44):
        (kernels / "inner.py").write_text(f"def inner(x): return x + {number}\n")
        done = subprocess.run(
            [sys.executable, "-c", f"{code}print(compile_kernel(outer)(1))"],
            cwd=copied, capture_output=True, text=True, env=environment, check=True,
        )  # fmt: skip
        assert done.stdout == f"{number + 1}\n"
    assert list(cache.rglob("outer.outer*.nbc"))


@pytest.mark.slow
def test_nothing_is_written_to_an_open_folder(cache: Path) -> None:
    cache.chmod(0o777)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    subprocess.run([sys.executable, "-c", COMPILE], capture_output=True, env=environment, check=True)
    assert not list(cache.iterdir())
