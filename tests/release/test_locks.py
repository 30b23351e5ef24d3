"""The lock of a path: one holder at a time, refused at once, gone with its holder, and no need of POSIX to import."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import labeldp
from labeldp.artifact.staging import exclusive
from labeldp.errors import InvalidInput, LabelDPError

HOLD = """
import sys, time
from pathlib import Path
from labeldp.artifact.staging import exclusive
with exclusive(Path(sys.argv[1]), "it"):
    print("held", flush=True)
    time.sleep(60)
"""
POSIX_MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "termios", "tty"}
POSIX_NAMES = {"O_DIRECTORY", "O_NOFOLLOW", "fork", "getuid", "geteuid", "pread", "preadv", "sched_getaffinity"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "message"


def test_a_lock_goes_with_its_holder_and_leaves_no_file(path):
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LabelDPError, match="another labeldp run is using it"), exclusive(path, "it"):
            pass
        holder.kill()
    with exclusive(path, "it"):
        pass
    assert list(path.parent.iterdir()) == []


def test_a_lock_file_removed_by_its_holder_is_no_lock(path, monkeypatch):
    """Between opening and locking, its holder ends and a third run begins: the lock obtained guards nothing."""
    fcntl = pytest.importorskip("fcntl")
    place, flock, third = path.parent / ".message.labeldp-lock", fcntl.flock, []

    def late(handle, how):
        if not third:
            place.unlink()
            third.append(os.open(place, os.O_RDWR | os.O_CREAT))
            flock(third[0], how)
        flock(handle, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(LabelDPError, match="another labeldp run is using it"), exclusive(path, "it"):
        pass
    assert place.exists()
    os.close(third[0])


def test_a_missing_folder_is_named_and_not_made(path):
    with pytest.raises(InvalidInput, match="Its folder must exist"), exclusive(path / "inside", "it"):
        pass
    assert not path.exists()


def test_a_link_in_the_place_of_the_lock_is_not_followed(path):
    (path.parent / ".message.labeldp-lock").symlink_to(path.parent / "elsewhere")
    with pytest.raises(InvalidInput, match="cannot write next to it"), exclusive(path, "it"):
        pass
    assert not (path.parent / "elsewhere").exists()


def test_nothing_is_used_that_windows_lacks():
    for file in Path(labeldp.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                named = {alias.name for alias in node.names} | {getattr(node, "module", None)}
                assert not named & POSIX_MODULES, file
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", None) == "os":
                assert node.attr not in POSIX_NAMES, file
