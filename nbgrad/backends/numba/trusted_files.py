"""Directories and files that nobody else can have written: what is read from them runs.

A directory is *ours* if the user or root owns it, and nobody else can write to it. So is a file, if it is a regular one
besides. What is read or written is asked of the open directory and of the open file themselves, so it is what is used,
whatever other processes put at their names in the meantime.

Of directories above, less is asked: the user or root owns them, and others cannot write to them, unless they are like
``/tmp``, where nobody changes what somebody else owns (the sticky bit). A group may: at many places ``~/.cache`` is
made so. Who is in it can put another directory at the place of ours, but none that belongs to us. Links on the way
there are followed if the user or root made them, and the way that they show is asked the same. Links to files, and to
folders within ours, are not followed.

On Windows, who may write is not in the mode, and the user's own directories are taken as they are.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from secrets import token_hex
from typing import Any

__all__ = ["Folder", "Refused", "Root"]

_POSIX = hasattr(os, "geteuid") and os.open in os.supports_dir_fd
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK if _POSIX else getattr(os, "O_BINARY", 0)
#: To be in a directory one need not be allowed to list it; where the system has no word for that, one must.
_STEP = _FLAGS | os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY) if _POSIX else 0
#: Links on the way to a directory, at most; and bytes of a file.
_LINKS, _LARGEST = 40, 1 << 26
#: Seconds after which a file that was not moved into place never will be.
_ABANDONED = 600.0


class Refused(Exception):
    """Somebody else can write there; the message says where, and who."""


def _owners() -> tuple[int, int]:
    return 0, os.geteuid()


def _owner(found: os.stat_result) -> int:
    return found.st_uid


def _check(found: os.stat_result, path: str, others: int) -> None:
    """That the user or root owns it, and that nobody in the bits of `others` can write to it."""
    if _owner(found) not in _owners():
        raise Refused(f"{path} belongs to somebody else (user {_owner(found)})")
    if found.st_mode & others:
        whose = "everybody" if found.st_mode & others & stat.S_IWOTH else "its group"
        raise Refused(f"{whose} can write to {path} (mode {stat.S_IMODE(found.st_mode):o}; chmod go-w makes it yours)")


def _above(found: os.stat_result, path: str) -> None:
    """The same for a directory on the way."""
    _check(found, path, 0 if found.st_mode & stat.S_ISVTX else stat.S_IWOTH)


def _close(fd: int) -> None:
    with contextlib.suppress(OSError):
        os.close(fd)


class Folder:
    """A directory of ours that is open.

    Parameters
    ----------
    fd : int or None
        Its descriptor, which the folder closes; None where there are none.
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
        """A folder in it; an OSError if there is none, or it is not ours."""
        path = os.path.join(self.path, name)
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._name(name), 0o700, **self._at)
        if self.fd is None:
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                raise NotADirectoryError(path)
            return Folder(None, path)
        found = Folder(os.open(name, _STEP, dir_fd=self.fd), path)
        try:
            _ours(found.fd, path)
        except BaseException:
            found.__exit__()
            raise
        return found

    def read(self, name: str) -> bytes:
        """A file's content; an OSError if there is none, or it is not ours."""
        if self.fd is None and not stat.S_ISREG(os.lstat(self._name(name)).st_mode):
            raise PermissionError(name)
        fd = os.open(self._name(name), _FLAGS | os.O_RDONLY, **self._at)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
                raise PermissionError(f"{name} is no file of ours")
            if self.fd is not None:
                _ours(fd, name, found)
            parts = []
            while part := os.read(fd, found.st_size + 1):
                parts.append(part)
            return b"".join(parts)
        finally:
            _close(fd)

    def write(self, name: str, content: bytes) -> None:
        """Write a file, and move it to its name when it is whole: others see all of it, or nothing."""
        made = f"{name[:16]}.{os.getpid()}.{token_hex(4)}.tmp"
        fd = os.open(self._name(made), _FLAGS | os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, **self._at)
        try:
            try:
                rest = memoryview(content)
                while rest:
                    rest = rest[os.write(fd, rest) :]
            finally:
                os.close(fd)
            at = {} if self.fd is None else {"src_dir_fd": self.fd, "dst_dir_fd": self.fd}
            os.replace(self._name(made), self._name(name), **at)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(self._name(made), **self._at)
            raise

    def remove(self, name: str) -> bool:
        """Delete a file; whether it was there."""
        try:
            os.unlink(self._name(name), **self._at)
        except OSError:
            return False
        return True

    def files(self) -> dict[str, os.stat_result]:
        """The regular files that belong to the user, by name."""
        return {name: found for name, found in self._entries() if stat.S_ISREG(found.st_mode)}

    def folders(self) -> list[str]:
        """The names of the folders."""
        return sorted(name for name, found in self._entries() if stat.S_ISDIR(found.st_mode))

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
                found = os.stat(self._name(name), follow_symlinks=False, **self._at)
                if self.fd is None or _owner(found) == os.geteuid():
                    entries.append((name, found))
        return entries

    def writable(self) -> bool:
        """Whether files can be made in it, as far as the system says."""
        if self.fd is None:
            name = token_hex(32)
            self.write(name, b"")
            return self.remove(name)
        return os.access(".", os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids, **self._at)

    def tidy(self) -> None:
        """Delete what processes that were killed left half written."""
        now = time.time()
        for name, found in self.files().items():
            if name.endswith(".tmp") and now - found.st_mtime > _ABANDONED:
                self.remove(name)


def _ours(fd: int | None, path: str, found: os.stat_result | None = None) -> None:
    """An OSError unless what is open is ours."""
    try:
        _check(os.fstat(fd) if found is None else found, path, stat.S_IWGRP | stat.S_IWOTH)  # type: ignore[arg-type]
    except Refused as err:
        raise PermissionError(str(err)) from None


class Root:
    """A directory by its name, which is looked at anew each time, since it may be deleted and made again."""

    def __init__(self, path: str) -> None:
        self.path = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
        self._known: tuple[str, list[int]] | None = None

    def open(self, make: bool = False) -> Folder:
        """The directory; an OSError if there is none, :class:`Refused` if it is not ours."""
        if not _POSIX:
            if make:
                os.makedirs(self.path, exist_ok=True)
            elif not os.path.isdir(self.path):
                raise FileNotFoundError(self.path)
            return Folder(None, self.path)
        if self._known is not None and (found := self._same(*self._known)) is not None:
            return found
        fd, path = _walked(self.path, make)
        try:
            known = os.fstat(fd)
            _check(known, self.path, stat.S_IWGRP | stat.S_IWOTH)
        except BaseException:
            _close(fd)
            raise
        self._known = path, _identity(known)
        return Folder(fd, self.path)

    def _same(self, path: str, known: list[int]) -> Folder | None:
        """The directory, if it is the one that was asked before, and nobody was let in."""
        try:
            fd = os.open(path, _STEP)
        except OSError:
            return None
        with contextlib.suppress(OSError):
            if _identity(os.fstat(fd)) == known:
                return Folder(fd, self.path)
        _close(fd)
        return None


def _identity(found: os.stat_result) -> list[int]:
    return [found.st_dev, found.st_ino, found.st_uid, found.st_mode]


def _walked(path: str, make: bool) -> tuple[int, str]:
    """Go to a directory, step by step from the root, and ask each one on the way; where it is without links."""
    with contextlib.suppress(FileNotFoundError):
        os.lstat(path)  # an error for names that are too long
    rest = _steps(path)
    links = 0
    fd, been = os.open("/", _STEP), "/"
    try:
        while rest:
            _above(os.fstat(fd), been)
            name = rest.pop()
            try:
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                if not make:
                    raise
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=fd)
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
            here = os.path.join(been, name)
            if stat.S_ISLNK(found.st_mode):
                if _owner(found) not in _owners():
                    raise Refused(f"the link {here} belongs to somebody else (user {_owner(found)})")
                links += 1
                if links > _LINKS:
                    raise Refused(f"{path} leads through more than {_LINKS} links")
                target = os.readlink(name, dir_fd=fd)
                rest += _steps(target)
                if os.path.isabs(target):
                    fd, been = _stepped(fd, "/"), "/"
                continue
            fd = _stepped(fd, name)
            been = os.path.normpath(here)  # there are no links in it
        return fd, been
    except BaseException:
        _close(fd)
        raise


def _steps(path: str) -> list[str]:
    """The names in a path, the first one last."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _stepped(fd: int, name: str) -> int:
    """The directory there, instead of the one it is in."""
    found = os.open(name, _STEP, dir_fd=fd)
    _close(fd)
    return found
