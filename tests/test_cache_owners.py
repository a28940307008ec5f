"""Kernels run, so they are read from where nobody else can have written: not from four kinds of traps, nor others.

Who owns what is told by a table here, so that no test need be run by root.
"""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from nbgrad.backends.numba import disk_cache, trusted_files
from nbgrad.core import config

ROOT = Path(__file__).resolve().parent.parent
KEY = "ab" * 32
pytestmark = pytest.mark.skipif(os.name == "nt", reason="modes and owners are POSIX's")


@pytest.fixture
def house(monkeypatch, tmp_path):
    """A cache with a kernel in it, the place of another, and who owns what else than the user."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "up" / "given"))
    monkeypatch.setattr(disk_cache, "_user_cache", lambda: str(tmp_path / "private"))
    owners = {}
    monkeypatch.setattr(trusted_files, "_owner", lambda found: owners.get(found.st_ino, os.geteuid()))
    (tmp_path / "up").mkdir()

    class House:
        up, given, private = tmp_path / "up", tmp_path / "up" / "given", tmp_path / "private"
        folder = given / KEY[:2]
        file = folder / f"{KEY}.kernel"

        @staticmethod
        def belongs(path, owner=54321):
            owners[os.lstat(path).st_ino] = owner

        @staticmethod
        def forget():
            monkeypatch.setattr(disk_cache, "_chosen", None)

    made = House()
    made.forget()
    disk_cache.store(KEY, b"code")
    assert made.file.exists()
    made.forget()
    return made


def refused(house, *words):
    """The cache is not used, one warning says why, and another one is used instead."""
    with pytest.warns(RuntimeWarning) as caught:
        assert disk_cache.load(KEY) is None and disk_cache.directory() == house.private
    assert len(caught) == 1
    assert all(word in str(caught[0].message) for word in (*words, "NBGRAD_CACHE_DIR", str(house.private)))
    disk_cache.store(KEY, b"mine")
    assert disk_cache.load(KEY) == b"mine"
    assert not house.file.exists() or b"mine" not in house.file.read_bytes()


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775, 0o722])
def test_a_directory_that_others_can_write_to(house, mode):
    house.given.chmod(mode)
    refused(house, str(house.given), "can write", "chmod go-w")


def test_a_directory_of_somebody_else(house):
    house.belongs(house.given)
    refused(house, str(house.given), "54321")


def test_a_directory_in_one_of_somebody_else(house):
    house.belongs(house.up)
    refused(house, str(house.up), "54321")


def test_a_directory_in_one_that_everybody_can_write_to(house):
    house.up.chmod(0o777)
    refused(house, str(house.up), "everybody")


def test_a_directory_in_one_like_tmp(house):
    house.up.chmod(0o1777)
    assert disk_cache.load(KEY) == b"code"
    house.belongs(house.given)
    house.forget()
    refused(house)


def test_a_directory_in_one_that_a_group_can_write_to(house):
    house.up.chmod(0o775)
    assert disk_cache.load(KEY) == b"code"


@pytest.mark.parametrize("change", ["owner", "group", "world", "link"])
def test_a_subfolder_of_somebody_else(house, change):
    if change == "owner":
        house.belongs(house.folder)
    elif change == "link":
        house.folder.rename(house.up / "elsewhere")
        house.folder.symlink_to(house.up / "elsewhere")
    else:
        house.folder.chmod(0o770 if change == "group" else 0o707)
    assert disk_cache.load(KEY) is None
    disk_cache.store(KEY, b"new")
    assert disk_cache.load(KEY) is None and disk_cache.info()[1] == disk_cache.clear() == 0


@pytest.mark.parametrize("change", ["owner", "group", "world", "link", "fifo", "directory"])
def test_a_file_of_somebody_else(house, change):
    if change == "owner":
        house.belongs(house.file)
    elif change in ("group", "world"):
        house.file.chmod(0o660 if change == "group" else 0o606)
    else:
        house.file.rename(house.folder / "elsewhere")
        if change == "link":
            house.file.symlink_to(house.folder / "elsewhere")
        elif change == "fifo":
            os.mkfifo(house.file)
        else:
            house.file.mkdir()
    assert disk_cache.load(KEY) is None
    disk_cache.store(KEY, b"new")  # takes its place, unless that is a directory
    assert disk_cache.load(KEY) == (None if change == "directory" else b"new")


def test_a_link_of_somebody_else(house):
    house.given.rename(house.up / "elsewhere")
    house.given.symlink_to(house.up / "elsewhere")
    assert disk_cache.load(KEY) == b"code"  # the user's own
    house.belongs(house.given)
    house.forget()
    refused(house, "link", str(house.given))


def test_a_link_to_what_others_can_write_to(house):
    house.given.rename(house.up / "elsewhere")
    house.given.symlink_to("../up/elsewhere")
    (house.up / "elsewhere").chmod(0o777)
    refused(house, "can write")


def test_links_in_a_circle(house):
    house.given.rename(house.up / "elsewhere")
    house.given.symlink_to(house.given)
    refused(house, "links")


def test_a_directory_that_changes_hands_is_not_used_any_more(house):
    assert disk_cache.load(KEY) == b"code"
    house.given.chmod(0o777)
    assert disk_cache.load(KEY) is None
    house.given.chmod(0o700)
    assert disk_cache.load(KEY) == b"code"


def test_a_cache_of_the_administrator_for_all(house, monkeypatch):
    for path in (house.up, house.given, house.folder, house.file):
        house.belongs(path, 0)
    monkeypatch.setattr(config, "CACHE_DIR", os.pathsep.join([str(house.private), str(house.given)]))
    for path, mode in ((house.given, 0o755), (house.folder, 0o755), (house.file, 0o644)):
        path.chmod(mode)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert disk_cache.load(KEY) == b"code" and disk_cache.directory() == house.private
    house.file.chmod(0o664)
    assert disk_cache.load(KEY) is None


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o077])
def test_nobody_else_can_write_to_what_is_made(house, mask):
    old = os.umask(mask)
    try:
        disk_cache.load(KEY)
        for path in (house.file, house.folder, house.given):
            path.unlink() if path.is_file() else path.rmdir()
        disk_cache.store(KEY, b"code")
    finally:
        os.umask(old)
    for path in (house.file, house.folder, house.given):
        assert path.stat().st_mode & 0o077 == 0
    assert disk_cache.load(KEY) == b"code"


@pytest.mark.parametrize("path", ["x" * 300, "a/" * 3000, "\0", "/dev/null", "/proc/self/mem/x"])
def test_directories_that_cannot_be(house, monkeypatch, path):
    monkeypatch.setattr(config, "CACHE_DIR", path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert disk_cache.load(KEY) is None and disk_cache.directory() == house.private


def test_without_a_home(house, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(disk_cache, "_chosen", None)
    monkeypatch.setattr(config, "CACHE_DIR", None)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(house.up))
    for variable in ("HOME", "XDG_CACHE_HOME", "USERPROFILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # nobody knows it
    assert disk_cache.directory().parent == house.up


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="root alone can make what others own")
def test_of_really_another_user(tmp_path):
    code = f"""
import os, warnings
from pathlib import Path
from nbgrad.core import config
from nbgrad.backends.numba import disk_cache
top = Path({str(tmp_path)!r})
theirs, mine = top / "tmp" / "theirs", top / "mine"
for path in (theirs, mine):
    path.mkdir(parents=True)
top.chmod(0o755); (top / "tmp").chmod(0o1777)
os.chown(theirs, 65534, 65534); os.chown(mine, 12345, 12345); mine.chmod(0o700)
os.setuid(65534)
config.CACHE_DIR, disk_cache._user_cache = str(theirs), lambda: None
disk_cache.store("ab" * 32, b"trap")
assert disk_cache.load("ab" * 32) == b"trap"
"""
    ancestors = [p for p in tmp_path.parents if p.stat().st_mode & 0o005 != 0o005]
    modes = [p.stat().st_mode for p in ancestors]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    other = code.replace("os.setuid(65534)", "os.setuid(12345)").replace("path.mkdir(parents=True)", "pass")
    other = other.replace('disk_cache.store("ab" * 32, b"trap")', "disk_cache._user_cache = lambda: str(mine)")
    other = other.replace(
        'assert disk_cache.load("ab" * 32) == b"trap"',
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n    assert disk_cache.load('ab' * 32) is None\n"
        "assert disk_cache.directory() == mine and 'belongs to somebody else (user 65534)' in str(caught[0].message)",
    )
    try:
        for p in ancestors:
            p.chmod(0o755)
        for text in (code, other):
            done = subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stderr
    finally:
        for p, mode in zip(ancestors, modes, strict=True):
            p.chmod(mode & 0o7777)
