"""Compiled kernels on disk.

One file per kernel, named by the hash of everything that went into it. A file is a magic line, the
SHA-256 of the payload, and the payload; anything that does not check out (truncated, foreign, half
written by a crashed machine) counts as absent, and the kernel is compiled again. Files are written
under a temporary name and moved into place, so processes that compile the same kernel at the same
time each see a whole file or none.

The directory is, in this order: ``NBGRAD_CACHE_DIR``; the user's cache directory; one below the
system's temporary directory; none (memory only, with one warning). An ``NBGRAD_CACHE_DIR`` that is
not writable is still read.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
import warnings
from pathlib import Path

from .. import config

__all__ = ["clear", "directory", "info", "load", "store"]

_MAGIC = b"nbgrad kernel 1\n"
_SUFFIX = ".kernel"
_target: Path | None = None  # where new kernels are written
_sources: tuple[Path, ...] | None = None  # where kernels are looked for; None: not chosen yet


def _user_cache() -> Path | None:
    if sys.platform == "win32":
        root = os.environ.get("LOCALAPPDATA")
    elif sys.platform == "darwin":
        root = os.path.expanduser("~/Library/Caches")
    else:
        root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(root) / "nbgrad" if root and not root.startswith("~") else None


def _candidates() -> list[Path]:
    user = getattr(os, "getuid", lambda: "user")()
    found = [Path(config.CACHE_DIR)] if config.CACHE_DIR else []
    if (cache := _user_cache()) is not None:
        found.append(cache)
    return [*found, Path(tempfile.gettempdir()) / f"nbgrad-{user}"]


def _trusted(path: Path) -> bool:
    """Payloads are unpickled, so a directory somebody else owns is never read."""
    return not hasattr(os, "getuid") or path.stat().st_uid in (os.getuid(), 0)


def _writable(path: Path) -> bool:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path):
            return _trusted(path)
    except OSError:
        return False


def _choose() -> tuple[Path, ...]:
    global _target, _sources
    if _sources is None:
        candidates = _candidates()
        target = next((path for path in candidates if _writable(path)), None)
        sources = [] if target is None else [target]
        if config.CACHE_DIR and candidates[0] != target and candidates[0].is_dir() and _trusted(candidates[0]):
            sources.insert(0, candidates[0])
        if target is None:
            warnings.warn(
                "nbgrad: no writable directory for compiled kernels; each process compiles anew. "
                "Set NBGRAD_CACHE_DIR to a writable directory.",
                RuntimeWarning,
                stacklevel=2,
            )
        _target, _sources = target, tuple(sources)
    return _sources


def directory() -> Path | None:
    """Where new kernels are written, or ``None`` when they are kept in memory alone."""
    _choose()
    return _target


def load(key: str) -> bytes | None:
    """The payload stored under `key`, or ``None``."""
    for root in _choose():
        try:
            blob = (root / key[:2] / (key + _SUFFIX)).read_bytes()
        except OSError:
            continue
        head = len(_MAGIC) + 32
        payload = blob[head:]
        if blob.startswith(_MAGIC) and blob[len(_MAGIC) : head] == hashlib.sha256(payload).digest():
            return payload
    return None


def store(key: str, payload: bytes) -> None:
    """Keep `payload` under `key`. A failure (disk full, directory gone) costs only a later recompilation."""
    _choose()
    if _target is None:
        return
    folder = _target / key[:2]
    name = None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(payload).digest() + payload)
        os.replace(name, folder / (key + _SUFFIX))
    except OSError:
        if name is not None:
            with contextlib.suppress(OSError):
                os.unlink(name)


def _files() -> list[Path]:
    root = directory()
    return [] if root is None else sorted(root.glob(f"??/*{_SUFFIX}"))


def info() -> tuple[Path | None, int, int]:
    """Directory, number of kernels and their size in bytes."""
    files = _files()
    return directory(), len(files), sum(path.stat().st_size for path in files)


def clear() -> int:
    """Delete all stored kernels; returns how many. Kernels already loaded keep working."""
    files = _files()
    for path in files:
        path.unlink(missing_ok=True)
    return len(files)
