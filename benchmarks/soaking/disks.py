"""Small disks that can be full or read-only: tmpfs in a mount namespace of our own, or plain folders where that is refused."""

from __future__ import annotations

import ctypes
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

SIZE = 8 << 20
PAGE = 4096
_NEW_MOUNT_NAMESPACE = 0x20000
_RECURSIVE, _PRIVATE, _REMOUNT, _READ_ONLY = 0x4000, 0x40000, 0x20, 0x1
_BALLAST = "ballast"


def own_mounts() -> bool:
    """Gives this process mounts of its own, which vanish with it. False if that takes rights that it has not."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "unshare") or libc.unshare(_NEW_MOUNT_NAMESPACE) != 0:
        return False
    return libc.mount(b"none", b"/", None, _RECURSIVE | _PRIVATE, None) == 0


@dataclass(frozen=True)
class Disk:
    """A folder on a disk of its own if `mounted`, else a plain one, which cannot be filled up."""

    folder: Path
    mounted: bool

    @classmethod
    def make(cls, folder: Path, *, mount: bool) -> Disk:
        folder.mkdir()
        if mount:
            _mount(folder, 0)
        return cls(folder, mount)

    @property
    def can_be_read_only(self) -> bool:
        """Permissions do not bind the superuser, so it needs a mount."""
        return self.mounted or os.geteuid() != 0

    def fill(self, free_pages: int) -> None:
        """Leaves room for so many pages."""
        assert self.mounted
        space = shutil.disk_usage(self.folder).free - PAGE * free_pages
        handle = os.open(self.folder / _BALLAST, os.O_CREAT | os.O_WRONLY)
        try:
            os.posix_fallocate(handle, 0, max(space, PAGE))
        finally:
            os.close(handle)

    def protect(self) -> None:
        """Makes it read-only."""
        if self.mounted:
            _mount(self.folder, _REMOUNT | _READ_ONLY)
        else:
            self.folder.chmod(0o500)

    def heal(self) -> None:
        """Ends every fault."""
        if self.mounted:
            _mount(self.folder, _REMOUNT)
        else:
            self.folder.chmod(0o700)
        (self.folder / _BALLAST).unlink(missing_ok=True)

    def clear(self) -> None:
        """Removes everything on it."""
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def _mount(folder: Path, flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", bytes(folder), b"tmpfs", flags, f"size={SIZE},mode=700".encode()) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(folder))
