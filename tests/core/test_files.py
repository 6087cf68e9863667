"""Files are written completely or not at all, and a file that is replaced keeps its place and its mode."""

from __future__ import annotations

import errno
import os
import pathlib
import stat
import sys
import threading
import time

import pytest

from treeanova.core.files import PAGE, check_suffix, only_writer, replacing, write_text

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes, links and pipes are POSIX")


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    return path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_when_all_is_written(tmp_path):
    path = tmp_path / "file"
    with replacing(path) as file:
        file.write(b"first")
        assert not path.exists()
        file.write(b", second")
    assert path.read_bytes() == b"first, second"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("failure", [RuntimeError("broken"), KeyboardInterrupt("broken")])
def test_a_failure_leaves_the_old_file_alone(failure, old, tmp_path):
    def write_half():
        with replacing(old) as file:
            file.write(b"half of the n")
            raise failure

    with pytest.raises(type(failure), match="broken"):
        write_half()
    assert old.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_a_folder_is_not_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"), replacing(tmp_path / "folder") as file:
        file.write(b"new")
    assert names(tmp_path) == ["folder"]
    assert (tmp_path / "folder").is_dir()


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_the_mode_of_the_old_file_stays_and_holds_from_the_start(mode, old, tmp_path):
    old.chmod(mode)
    with replacing(old) as file:
        temporary = next(path for path in tmp_path.iterdir() if path != old)
        assert not stat.S_IMODE(temporary.stat().st_mode) & 0o077 & ~mode
        file.write(b"new")
    assert stat.S_IMODE(old.stat().st_mode) == mode
    assert old.read_bytes() == b"new"


@posix
def test_a_new_file_has_the_usual_mode(tmp_path):
    (tmp_path / "usual").touch()
    with replacing(tmp_path / "new") as file:
        file.write(b"new")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


@posix
@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_and_its_target_is_replaced(exists, tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    if exists:
        target.write_bytes(b"old")
    (tmp_path / "between").symlink_to("target")
    link.symlink_to("between")
    with replacing(link) as file:
        file.write(b"new")
    assert link.readlink() == pathlib.Path("between")
    assert not target.is_symlink()
    assert target.read_bytes() == b"new"


@posix
def test_links_in_a_circle_are_refused(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="levels of symbolic links"), replacing(tmp_path / "a"):
        pass
    assert names(tmp_path) == ["a", "b"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are POSIX")
def test_a_pipe_is_written_to_directly(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    received = []
    reader = threading.Thread(target=lambda: received.append(path.read_bytes()))
    reader.start()
    with replacing(path) as file:
        file.write(b"through")
    reader.join(timeout=60)
    assert received == [b"through"]
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_texts_are_written_in_utf_8(tmp_path):
    write_text(str(tmp_path / "text"), "a × b\n")
    assert (tmp_path / "text").read_bytes() == b"a \xc3\x97 b\n"


@pytest.mark.parametrize("name", ["x.html", "x.HTM", "x", "/dev/stdout"])
def test_suffixes_of_the_format_and_none_are_taken(name):
    check_suffix(name, PAGE)


@pytest.mark.parametrize("name", ["x.pdf", "x.html.gz", "x.v2"])
def test_suffixes_of_other_formats_are_refused(name):
    stem = name.rpartition(".")[0]
    with pytest.raises(ValueError, match=rf"`path` must end in .html or .htm, .*, got '{name}'; name it '{stem}.html'"):
        check_suffix(name, PAGE)


# What other processes leave, and errors


def test_temporary_files_of_killed_processes_are_removed_after_a_day(tmp_path):
    """Only those of our own that are old and that nobody writes to."""
    ages = {".treeanova-0123456789abcdef": 2, ".treeanova-fedcba9876543210": 0.5, ".treeanova-notes": 9, "other": 9}
    for name, days in ages.items():
        (tmp_path / name).write_bytes(b"")
        os.utime(tmp_path / name, (time.time() - days * 86_400,) * 2)
    with replacing(tmp_path / "new") as file:
        live = next(path for path in tmp_path.glob(".treeanova-*") if path.name not in ages)
        file.write(b"x")
        file.flush()
        os.utime(live, (0, 0))
        write_text(tmp_path / "second", "y")
        assert live.exists() or os.name == "nt"
    assert set(names(tmp_path)) == {".treeanova-fedcba9876543210", ".treeanova-notes", "other", "new", "second"}


def test_a_missing_folder_is_an_error_that_names_the_path(tmp_path):
    path = tmp_path / "absent" / "file"
    with pytest.raises(FileNotFoundError, match=r"absent.file'$") as caught:
        write_text(path, "x")
    assert caught.value.filename == str(path)


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="/dev/full is Linux")
def test_a_full_device_is_an_error_that_names_the_path():
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'$"):
        write_text("/dev/full", "x")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG])
def test_a_full_disk_is_an_error_that_names_the_path(number, tmp_path, monkeypatch):
    def fail(_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=r"file'$") as caught:
        write_text(tmp_path / "file", "x")
    assert caught.value.errno == number
    assert caught.value.filename == str(tmp_path / "file")
    assert names(tmp_path) == []


def test_an_error_of_another_file_keeps_its_name(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent"), replacing(tmp_path / "file"):
        (tmp_path / "absent").read_bytes()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such locks")
def test_a_folder_has_one_writer_at_a_time(tmp_path):
    folder = tmp_path / "out.parts"
    with only_writer(folder, "out"):
        with pytest.raises(ValueError, match="'out', which another process writes now"), only_writer(folder, "out"):
            pass
        assert folder.is_dir()
    with only_writer(folder, "out"):
        folder.rmdir()
    with only_writer(folder, "out"):
        assert folder.is_dir()
