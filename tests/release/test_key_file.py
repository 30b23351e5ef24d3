"""The key file: whole at any moment, private, and held by one run at a time."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace

import pytest

from labeldp.errors import InvalidInput, LabelDPError
from labeldp.release import key_file as keyfile
from labeldp.release.key_file import KeptRelease, KeyFile

RELEASE = KeptRelease("0" * 32, "int", "input", "request", "{}")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "key"


def test_a_new_key_is_random_private_and_stays_the_same(path, tmp_path):
    with KeyFile.use(path, create=True) as keys:
        keys.save()
    with KeyFile.use(tmp_path / "other", create=True) as other:
        assert other.key != keys.key
    assert len(keys.key) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with KeyFile.use(path) as again:
        assert again.key == keys.key
        again.put(RELEASE)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_key_that_is_not_used_leaves_no_file(path, tmp_path):
    with KeyFile.use(path, create=True) as keys:
        assert not keys.stored
    assert list(tmp_path.iterdir()) == []


def test_releases_are_kept_replaced_and_found(path):
    later = replace(RELEASE, id="1" * 32, input_hmac="other")
    with KeyFile.use(path, create=True) as keys:
        keys.put(RELEASE)
        keys.put(later)
        keys.put(replace(RELEASE, parts=("digest",), pending="batch"))
    with KeyFile.use(path) as keys:
        assert keys.releases == (replace(RELEASE, parts=("digest",), pending="batch"), later)
        assert keys.find("1" * 32) == later
        assert keys.find("2" * 32) is None
        assert keys.resumable("other", "request") == later
        assert keys.resumable("other", "another request") is None
        keys.put(replace(later, done=True))
        assert keys.resumable("other", "request") is None


def test_a_second_run_is_refused_and_the_next_one_not(path, tmp_path):
    with KeyFile.use(path, create=True) as keys:
        keys.save()
        with pytest.raises(LabelDPError, match="another labeldp run"), KeyFile.use(path):
            pass
    with KeyFile.use(path):
        pass
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_file_as_it_was(path, tmp_path, monkeypatch):
    with KeyFile.use(path, create=True) as keys:
        keys.put(RELEASE)
        before = path.read_bytes()

        def full(_):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(keyfile.os, "fsync", full)
            with pytest.raises(LabelDPError, match="No space left"):
                keys.put(replace(RELEASE, done=True))
        assert path.read_bytes() == before
        assert keys.releases == (RELEASE,)
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_one_and_its_target_is_what_changes(path, tmp_path):
    """Replacing the link would leave an outdated key file at the place that it names."""
    (tmp_path / "safe").mkdir()
    target = tmp_path / "safe" / "key"
    path.symlink_to(target)
    with KeyFile.use(path, create=True) as keys:
        keys.put(RELEASE)
    assert path.is_symlink()
    with KeyFile.use(target) as keys:
        assert keys.releases == (RELEASE,)


def test_two_names_of_one_file_are_one_lock(path, tmp_path):
    (tmp_path / "link").symlink_to(path)
    second = KeyFile.use(tmp_path / "link", create=True)
    with KeyFile.use(path, create=True), pytest.raises(LabelDPError, match="another"), second:
        pass


@pytest.mark.parametrize("mode", [0o604, 0o640])
def test_a_file_that_others_can_read_is_refused(path, mode):
    with KeyFile.use(path, create=True) as keys:
        keys.save()
    path.chmod(mode)
    with pytest.raises(InvalidInput, match=f"chmod 600 {path}"), KeyFile.use(path):
        pass


@pytest.mark.parametrize(
    "damage", [{"key": "00"}, {"key": None}, {"releases": None}, {"format": "something else"}, {"format_version": 3}]
)
def test_a_damaged_file_is_refused_and_left_alone(path, damage):
    with KeyFile.use(path, create=True) as keys:
        keys.put(RELEASE)
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match=str(path)), KeyFile.use(path, create=True):
        pass
    assert path.read_bytes() == before


@pytest.mark.parametrize("wrong", [{"id": "ZZ"}, {"parts": [1]}, {"surprise": 1}, {"ledger": "yes"}])
def test_a_damaged_release_is_refused(path, wrong):
    with KeyFile.use(path, create=True) as keys:
        keys.put(RELEASE)
    record = json.loads(path.read_text())
    record["releases"][0] |= wrong
    path.write_text(json.dumps(record))
    with pytest.raises(InvalidInput, match="damaged"), KeyFile.use(path):
        pass


def test_a_missing_file_is_made_only_if_asked(path):
    with pytest.raises(InvalidInput, match="no key file"), KeyFile.use(path):
        pass
    assert not os.path.lexists(path)


def test_the_key_is_not_shown(path):
    with KeyFile.use(path, create=True) as keys:
        assert keys.key.hex() not in repr(keys)
