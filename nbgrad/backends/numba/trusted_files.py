"""Trusted files: directories and files that only the user and root can have written. Their contents are executed.

A directory is *ours* if the user or root owns it and nobody else can write to it. The same holds for a file, which must
be a regular one besides. Checks are made on open descriptors, which are then used, so renaming by other processes in
between has no effect.

Parent directories are checked less strictly: the user or root owns them, and others cannot write to them, except where
the sticky bit protects entries (``/tmp``). The group may write: ``~/.cache`` is often created so. Its members can
replace our directory by another one, but not by one that we own. Symbolic links on the path are followed if the user or
root owns them, and their targets are checked in the same way. Links to files, and to folders within ours, are not
followed.

On Windows the mode does not say who may write, and the user's own directories are trusted.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from secrets import token_hex
from typing import Any

__all__ = ["Folder", "Root", "UntrustedError"]

_POSIX = hasattr(os, "geteuid") and os.open in os.supports_dir_fd
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK if _POSIX else getattr(os, "O_BINARY", 0)
#: Entering a directory does not need permission to list it, except on systems without ``O_PATH``.
_STEP = _FLAGS | os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY) if _POSIX else 0
#: Most links on the path to a directory; most bytes of a file.
_LINKS, _LARGEST = 40, 1 << 26
#: Seconds after which a temporary file counts as abandoned.
_ABANDONED = 600.0


class UntrustedError(Exception):
    """Raised if somebody else can write there; the message says where, and who."""


def _owners() -> tuple[int, int]:
    return 0, os.geteuid()


def _owner(status: os.stat_result) -> int:
    return status.st_uid


def _check(status: os.stat_result, path: str, others: int) -> None:
    """Raise unless the user or root owns it, and nobody in the permission bits `others` can write to it."""
    if _owner(status) not in _owners():
        raise UntrustedError(f"{path} belongs to somebody else (user {_owner(status)})")
    if status.st_mode & others:
        whose = "everybody" if status.st_mode & others & stat.S_IWOTH else "its group"
        raise UntrustedError(
            f"{whose} can write to {path} (mode {stat.S_IMODE(status.st_mode):o}; chmod go-w makes it yours)"
        )


def _check_parent(status: os.stat_result, path: str) -> None:
    """The same for a parent directory."""
    _check(status, path, 0 if status.st_mode & stat.S_ISVTX else stat.S_IWOTH)


def _close(fd: int) -> None:
    with contextlib.suppress(OSError):
        os.close(fd)


class Folder:
    """An open directory of ours.

    Parameters
    ----------
    fd : int or None
        Its descriptor, which the folder closes; None on systems without directory descriptors.
    path : str
    """

    def __init__(self, fd: int | None, path: str) -> None:
        self.fd = fd
        self.path = path
        self._at: dict[str, Any] = {} if fd is None else {"dir_fd": fd}

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_) -> None:
        if self.fd is not None:
            _close(self.fd)

    def _name(self, name: str) -> str:
        return os.path.join(self.path, name) if self.fd is None else name

    def folder(self, name: str, make: bool = False) -> Folder:
        """Open a subfolder; an OSError if there is none, or it is not ours."""
        path = os.path.join(self.path, name)
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._name(name), 0o700, **self._at)
        if self.fd is None:
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                raise NotADirectoryError(path)
            return Folder(None, path)
        subfolder = Folder(os.open(name, _STEP, dir_fd=self.fd), path)
        try:
            _require_trusted(subfolder.fd, path)
        except BaseException:
            subfolder.__exit__()
            raise
        return subfolder

    def read(self, name: str) -> bytes:
        """The content of a file; an OSError if there is none, or it is not ours."""
        if self.fd is None and not stat.S_ISREG(os.lstat(self._name(name)).st_mode):
            raise PermissionError(name)
        fd = os.open(self._name(name), _FLAGS | os.O_RDONLY, **self._at)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
                raise PermissionError(f"{name} is no file of ours")
            if self.fd is not None:
                _require_trusted(fd, name, status)
            parts = []
            while part := os.read(fd, status.st_size + 1):
                parts.append(part)
            return b"".join(parts)
        finally:
            _close(fd)

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically: under a temporary name, then moved into place."""
        temporary = f"{name[:16]}.{os.getpid()}.{token_hex(4)}.tmp"
        fd = os.open(self._name(temporary), _FLAGS | os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, **self._at)
        try:
            try:
                rest = memoryview(content)
                while rest:
                    rest = rest[os.write(fd, rest) :]
            finally:
                os.close(fd)
            at = {} if self.fd is None else {"src_dir_fd": self.fd, "dst_dir_fd": self.fd}
            os.replace(self._name(temporary), self._name(name), **at)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(self._name(temporary), **self._at)
            raise

    def remove(self, name: str) -> bool:
        """Delete a file; returns whether it existed."""
        try:
            os.unlink(self._name(name), **self._at)
        except OSError:
            return False
        return True

    def files(self) -> dict[str, os.stat_result]:
        """The regular files that belong to the user, by name."""
        return {name: status for name, status in self._entries() if stat.S_ISREG(status.st_mode)}

    def folders(self) -> list[str]:
        """The names of the folders."""
        return sorted(name for name, status in self._entries() if stat.S_ISDIR(status.st_mode))

    def _entries(self) -> list[tuple[str, os.stat_result]]:
        if self.fd is None:
            names = os.listdir(self.path)
        else:
            listed = os.open(".", _FLAGS | os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.fd)
            try:
                names = os.listdir(listed)
            finally:
                _close(listed)
        entries = []
        for name in names:
            with contextlib.suppress(OSError):
                status = os.stat(self._name(name), follow_symlinks=False, **self._at)
                if self.fd is None or _owner(status) == os.geteuid():
                    entries.append((name, status))
        return entries

    def writable(self) -> bool:
        """Whether files can be created in it, as far as the system says."""
        if self.fd is None:
            name = token_hex(32)
            self.write(name, b"")
            return self.remove(name)
        return os.access(".", os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids, **self._at)

    def remove_abandoned(self) -> None:
        """Delete temporary files that killed processes left behind."""
        now = time.time()
        for name, status in self.files().items():
            if name.endswith(".tmp") and now - status.st_mtime > _ABANDONED:
                self.remove(name)


def _require_trusted(fd: int | None, path: str, status: os.stat_result | None = None) -> None:
    """Raise an OSError unless an open directory or file is ours."""
    try:
        _check(os.fstat(fd) if status is None else status, path, stat.S_IWGRP | stat.S_IWOTH)  # type: ignore[arg-type]
    except UntrustedError as err:
        raise PermissionError(str(err)) from None


class Root:
    """A directory by its path, which is checked at each use, since it may be deleted and created again."""

    def __init__(self, path: str) -> None:
        self.path = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
        self._known: tuple[str, list[int]] | None = None

    def open(self, make: bool = False) -> Folder:
        """Open the directory; an OSError if there is none, :class:`UntrustedError` if it is not ours."""
        if not _POSIX:
            if make:
                os.makedirs(self.path, exist_ok=True)
            elif not os.path.isdir(self.path):
                raise FileNotFoundError(self.path)
            return Folder(None, self.path)
        if self._known is not None and (folder := self._same(*self._known)) is not None:
            return folder
        fd, path = _walk_path(self.path, make)
        try:
            known = os.fstat(fd)
            _check(known, self.path, stat.S_IWGRP | stat.S_IWOTH)
        except BaseException:
            _close(fd)
            raise
        self._known = path, _identity(known)
        return Folder(fd, self.path)

    def _same(self, path: str, known: list[int]) -> Folder | None:
        """Open the directory without walking the path, if it and its permissions are as at the last check."""
        try:
            fd = os.open(path, _STEP)
        except OSError:
            return None
        with contextlib.suppress(OSError):
            if _identity(os.fstat(fd)) == known:
                return Folder(fd, self.path)
        _close(fd)
        return None


def _identity(status: os.stat_result) -> list[int]:
    return [status.st_dev, status.st_ino, status.st_uid, status.st_mode]


def _walk_path(path: str, make: bool) -> tuple[int, str]:
    """Walk to a directory from the root, checking each parent; returns its descriptor and its path without links."""
    with contextlib.suppress(FileNotFoundError):
        os.lstat(path)  # an error for names that are too long
    rest = _steps(path)
    links = 0
    fd, parent = os.open("/", _STEP), "/"
    try:
        while rest:
            _check_parent(os.fstat(fd), parent)
            name = rest.pop()
            try:
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                if not make:
                    raise
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=fd)
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            here = os.path.join(parent, name)
            if stat.S_ISLNK(status.st_mode):
                if _owner(status) not in _owners():
                    raise UntrustedError(f"the link {here} belongs to somebody else (user {_owner(status)})")
                links += 1
                if links > _LINKS:
                    raise UntrustedError(f"{path} leads through more than {_LINKS} links")
                target = os.readlink(name, dir_fd=fd)
                rest += _steps(target)
                if os.path.isabs(target):
                    fd, parent = _open_entry(fd, "/"), "/"
                continue
            fd = _open_entry(fd, name)
            parent = os.path.normpath(here)  # its directories are no links
        return fd, parent
    except BaseException:
        _close(fd)
        raise


def _steps(path: str) -> list[str]:
    """The components of a path, in reverse order."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _open_entry(fd: int, name: str) -> int:
    """Open an entry of a directory and close the directory."""
    opened = os.open(name, _STEP, dir_fd=fd)
    _close(fd)
    return opened
