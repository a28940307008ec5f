"""What nbgrad itself is, as a text that is in the name of every stored kernel: code that an older pass made is not met.

It is the hash of all its files. Reading them takes 5 ms, and looking at their times 1 ms; so the hash is kept on disk
with these, as kernels are.
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

#: Where the files are; what is in a directory below is in the hash.
PACKAGE = str(Path(os.path.abspath(__file__)).parents[2])
_SUFFIX = ".sources"
#: Nanoseconds within which two changes of a file can have one time, on the coarsest of file systems.
_TICK = 3_000_000_000


@once
def digest() -> str:
    """The hash; "" where it is unknown: then nothing can be loaded or stored.

    That is so if a file was changed after this process began to import them: what runs may be the old one.
    """
    try:
        files = sorted(_files(PACKAGE))
        newest = max(file[2] for file in files)
        if newest > config.STARTED:
            return ""
        seen = hashlib.sha256(repr(files).encode()).digest()
        key = hashlib.sha256(f"sources {PACKAGE}".encode()).hexdigest()
        kept = disk_cache.load(key, _SUFFIX)
        if kept is not None and kept[:32] == seen:
            return kept[32:].hex()
        whole = hashlib.sha256()
        for path, size, *_ in files:
            whole.update(f"{path}\0{size}\0".encode())
            whole.update(Path(PACKAGE, path).read_bytes())
        if sorted(_files(PACKAGE)) != files:
            return ""
        if time.time_ns() - newest > _TICK:
            disk_cache.store(key, seen + whole.digest(), _SUFFIX)
        return whole.hexdigest()
    except (OSError, ValueError):
        return _archive()


def _files(folder: str, within: str = "") -> Iterator[tuple[str, int, int, int, int]]:
    """Of each file with code its path, size, when it was last changed (nobody can set that), when it says it was, and
    which one it is."""
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
    """The hash of the file that the package is imported from, if it is in one."""
    for path in Path(PACKAGE).parents:
        with contextlib.suppress(OSError):
            if path.is_file():
                return hashlib.sha256(path.read_bytes()).hexdigest()
    return ""
