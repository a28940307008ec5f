"""Source digest: the hash of nbgrad's own files, part of every kernel's key, so that code of older passes is not used.

Reading the files takes 5 ms, and reading their times 1 ms; so the hash is stored on disk together with the times, as
kernels are.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator
from functools import cache as once
from pathlib import Path

from ...core import config
from . import disk_cache

__all__ = ["PACKAGE", "digest"]

#: The package's directory; the hash covers it and its subdirectories.
PACKAGE = str(Path(os.path.abspath(__file__)).parents[2])
_SUFFIX = ".sources"
#: Nanoseconds within which two changes of a file can have the same time, on the coarsest of file systems.
_TICK = 3_000_000_000


@once
def digest() -> str:
    """The hash; "" if it is unknown, and then nothing can be loaded or stored.

    It is unknown if a file was changed after this process began to import the package: the old version may be running.
    """
    try:
        files = sorted(_files(PACKAGE))
        newest = max(file[2] for file in files)
        if newest > config.STARTED:
            return ""
        listing = hashlib.sha256(repr(files).encode()).digest()
        key = hashlib.sha256(f"sources {PACKAGE}".encode()).hexdigest()
        stored = disk_cache.load(key, _SUFFIX)
        if stored is not None and stored[:32] == listing:
            return stored[32:].hex()
        whole = hashlib.sha256()
        for path, size, *_ in files:
            whole.update(f"{path}\0{size}\0".encode())
            whole.update(Path(PACKAGE, path).read_bytes())
        if sorted(_files(PACKAGE)) != files:
            return ""
        if time.time_ns() - newest > _TICK:
            disk_cache.store(key, listing + whole.digest(), _SUFFIX)
        return whole.hexdigest()
    except (OSError, ValueError):
        return _archive()


def _files(folder: str, within: str = "") -> Iterator[tuple[str, int, int, int, int]]:
    """For each source file: path, size, last change (which cannot be forged), modification time and inode."""
    with os.scandir(folder) as entries:
        for entry in entries:
            path = f"{within}{entry.name}"
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _files(entry.path, f"{path}/")
            elif entry.name.endswith((".py", ".pyc")):
                s = entry.stat()
                yield path, s.st_size, max(s.st_ctime_ns, s.st_mtime_ns), s.st_mtime_ns, s.st_ino


def _archive() -> str:
    """The hash of the archive that the package is imported from, if there is one."""
    for path in Path(PACKAGE).parents:
        with contextlib.suppress(OSError):
            if path.is_file():
                return hashlib.sha256(path.read_bytes()).hexdigest()
    return ""
