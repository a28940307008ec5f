"""Disk cache: the files and directories in which compiled kernels are stored.

One file per kernel, named by the hash of everything that went into it: a magic line, the SHA-256 of what follows, that
name, and the payload. A file that fails these checks (truncated, under another name, half written by a crashed machine)
counts as absent, and the kernel is recompiled. Files are written under a temporary name and moved into place, so
processes that compile the same kernel at the same time each see a whole file or none.

Payloads are executed, so they are only read from files and directories that nobody but the user and root can write to
(:mod:`.trusted_files`). Others are not used, with one warning.

Kernels are written to the first usable one of these: the first directory in ``NBGRAD_CACHE_DIR``; the user's cache
directory; one below the system's temporary directory; none (memory only, with a warning). They are read from there,
from those before it, and from all of ``NBGRAD_CACHE_DIR``.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

from ...core import config
from .trusted_files import Folder, Root, UntrustedError

__all__ = ["clear", "directory", "info", "load", "sources", "store"]

_MAGIC = b"nbgrad kernel 2\n"
_HEAD = len(_MAGIC) + 32
_KEY = 64
#: The suffixes of files with kernels, and with what kernels are made of and called through: helpers, trampolines.
KERNEL, PART = ".kernel", ".part"
_OURS = re.compile(r"[0-9a-f]{64}\.(kernel|part|sources)|[0-9a-f]{16}\.\d+\.[0-9a-f]{8}\.tmp")
#: The directory that kernels are written to, if any, and those that they are read from; None: not chosen yet.
_chosen: tuple[Root | None, tuple[Root, ...]] | None = None


def _user_cache() -> str | None:
    if sys.platform == "win32":
        root = os.environ.get("LOCALAPPDATA")
    elif sys.platform == "darwin":
        root = os.path.expanduser("~/Library/Caches")
    else:
        root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(root, "nbgrad") if root and os.path.isabs(root) else None


def _temporary() -> str | None:
    try:
        return os.path.join(tempfile.gettempdir(), f"nbgrad-{getattr(os, 'getuid', lambda: 'user')()}")
    except OSError:
        return None


def _writable(root: Root) -> bool:
    """Whether files can be created in a directory."""
    try:
        with root.open(make=True) as folder:
            return folder.writable()
    except OSError:
        return False


def _choose() -> tuple[Root | None, tuple[Root, ...]]:
    """Choose the directories, once per process."""
    global _chosen
    if _chosen is not None:
        return _chosen
    configured = [path for path in (config.CACHE_DIR or "").split(os.pathsep) if path]
    candidates = [(path, k == 0) for k, path in enumerate(configured)]
    candidates += [(path, True) for path in (_user_cache(), _temporary()) if path is not None]
    target: Root | None = None
    readable: list[Root] = []
    refused: list[str] = []
    for k, (path, may_write) in enumerate(candidates):
        if target is not None and k >= len(configured):
            break
        try:
            root = Root(path)
            if may_write and target is None and _writable(root):
                target = root
            root.open().__exit__()
            readable.append(root)
        except UntrustedError as err:
            refused.append(str(err))
        except (OSError, ValueError):  # no such directory
            pass
    _chosen = target, tuple(readable)
    _warn_unusable(target, refused)
    return _chosen


def _warn_unusable(target: Root | None, refused: list[str]) -> None:
    """Warn of directories that are not used, or if there is none."""
    if refused:
        instead = "each process compiles anew" if target is None else f"kernels are kept in {target.path} instead"
        warnings.warn(
            f"nbgrad: compiled kernels run, and somebody else could have put them there: {'; '.join(refused)}. That is "
            f"not used; {instead}. Set NBGRAD_CACHE_DIR to a directory that only you or root can write to.",
            RuntimeWarning,
            stacklevel=3,
        )
    elif target is None:
        warnings.warn(
            "nbgrad: no writable directory for compiled kernels; each process compiles anew. "
            "Set NBGRAD_CACHE_DIR to a writable directory.",
            RuntimeWarning,
            stacklevel=3,
        )


def directory() -> Path | None:
    """The directory that new kernels are written to, or ``None`` when they stay in memory only."""
    target, _ = _choose()
    return None if target is None else Path(target.path)


def sources() -> list[Path]:
    """The directories that kernels are read from."""
    return [Path(root.path) for root in _choose()[1]]


def load(key: str, suffix: str = KERNEL) -> bytes | None:
    """The payload stored under `key`, or ``None``."""
    for root in _choose()[1]:
        try:
            with root.open() as whole, whole.folder(key[:2]) as folder:
                blob = folder.read(key + suffix)
        except (OSError, UntrustedError, MemoryError):
            continue
        view = memoryview(blob)
        if (
            blob.startswith(_MAGIC)
            and view[_HEAD : _HEAD + _KEY] == key.encode()
            and view[len(_MAGIC) : _HEAD] == hashlib.sha256(view[_HEAD:]).digest()
        ):
            return blob[_HEAD + _KEY :]
    return None


def store(key: str, payload: bytes, suffix: str = KERNEL) -> None:
    """Store `payload` under `key`. A failure (disk full, directory gone) costs only a later recompilation."""
    target, _ = _choose()
    if target is None:
        return
    content = key.encode() + payload
    try:
        with target.open(make=True) as whole, whole.folder(key[:2], make=True) as folder:
            folder.remove_abandoned()
            folder.write(key + suffix, _MAGIC + hashlib.sha256(content).digest() + content)
    except (OSError, UntrustedError, MemoryError):
        pass


def _visit_files(visit: Callable[[Folder, str, os.stat_result], None]) -> None:
    """Call `visit` for each file of this cache in the directory that kernels are written to."""
    target, _ = _choose()
    if target is None:
        return
    try:
        with target.open() as whole:
            for name in whole.folders():
                if not re.fullmatch("[0-9a-f]{2}", name):
                    continue
                try:
                    with whole.folder(name) as folder:
                        for file, found in sorted(folder.files().items()):
                            if _OURS.fullmatch(file):
                                visit(folder, file, found)
                except OSError:  # not trusted, or deleted
                    continue
    except (OSError, UntrustedError):
        return


def info() -> tuple[Path | None, int, int]:
    """The directory, the number of kernels in it, and their size in bytes."""
    sizes: list[int] = []
    _visit_files(lambda folder, name, found: sizes.append(found.st_size) if name.endswith(KERNEL) else None)
    return directory(), len(sizes), sum(sizes)


def clear() -> int:
    """Delete all stored kernels; returns how many. Kernels already loaded keep working."""
    deleted: list[str] = []

    def delete(folder: Folder, name: str, found: os.stat_result) -> None:
        if folder.remove(name) and name.endswith(KERNEL):
            deleted.append(name)

    _visit_files(delete)
    return len(deleted)
