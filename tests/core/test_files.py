"""Files are written completely or not at all, and a file that is replaced keeps its place and its mode."""

from __future__ import annotations

import os
import pathlib
import stat
import sys
import threading

import pytest

from treeanova.core.files import PAGE, check_suffix, replacing, write_text

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
