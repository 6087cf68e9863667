from __future__ import annotations

import io
import json
import os
import select
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

from tests.support.command_line import COMMAND, plain_environment, refused
from treeanova.core.progress import quiet

pytest.importorskip("typer")
pytest.importorskip("rich")
pd = pytest.importorskip("pandas")
xgboost = pytest.importorskip("xgboost")

from tests.support.training import fit  # noqa: E402
from treeanova.cli import answers, run  # noqa: E402
from treeanova.cli.terminal import progress, say  # noqa: E402


def test_faults_of_our_own_are_one_line_unless_asked_for(folder, monkeypatch, capsys):
    def broken(*_):
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(answers, "decomposed", broken)
    line = refused(["explain", folder / "fx.tav"], capsys, status=1)
    assert "internal error, RuntimeError: two lines; TREEANOVA_TRACEBACK=1" in line
    monkeypatch.setenv("TREEANOVA_TRACEBACK", "1")
    assert run(["explain", str(folder / "fx.tav")]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_answers_and_warnings_get_a_line_of_their_own(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", stderr := Terminal())
    with progress() as report:
        report("work", 0, 1)
        assert stderr.getvalue().endswith("\rwork [00:00]")
        say("an answer")
        assert last_line(stderr.getvalue().encode()) == b""
        report("more", 0, 1)
        assert last_line(stderr.getvalue().encode()) == b"more [00:00]"
    assert last_line(stderr.getvalue().encode()) == b""
    assert capsys.readouterr().out == "an answer\n"


def test_there_is_no_bar_without_a_terminal(capsys):
    with progress() as report:
        assert report is quiet
    assert capsys.readouterr() == ("", "")


@pytest.mark.filterwarnings("default")
def test_warnings_are_one_line(folder, fx, monkeypatch, capsys):
    def warned(*_):
        warnings.warn("mind\nthis", UserWarning, stacklevel=1)
        return fx

    monkeypatch.setattr(answers, "decomposed", warned)
    assert run(["table", str(folder / "fx.tav"), "--term", "city"]) == 0
    assert capsys.readouterr().err == "treeanova: warning: mind this\n"


@pytest.mark.parametrize("arguments", [["explain", "--save", "new"], ["table", "--term", "a", "--csv", "new"]])
def test_a_stop_while_writing_leaves_the_old_file(arguments, folder, tmp_path, monkeypatch, capsys):
    import pathlib

    def stopped(*_):
        raise KeyboardInterrupt

    (tmp_path / "new").write_text("old")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pathlib.Path, "replace", stopped)
    assert refused([arguments[0], folder / "fx.tav", *arguments[1:]], capsys, status=130) == "treeanova: stopped\n"
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert (tmp_path / "new").read_text() == "old"


def test_a_pipe_gets_json_only_and_a_bad_run_status_2(folder, data):
    arguments = [*map(str, data), "--json"]
    good = subprocess.run(
        [*COMMAND, "explain", folder / "model.json", *arguments],
        capture_output=True,
        check=False,
        env=plain_environment(),
    )
    assert (good.returncode, good.stderr) == (0, b"")
    assert json.loads(good.stdout)["n_rows"] == 800
    bad = subprocess.run(
        [*COMMAND, "explain", folder / "none.json", *arguments],
        capture_output=True,
        check=False,
        env=plain_environment(),
    )
    assert (bad.returncode, bad.stdout, bad.stderr.count(b"\n")) == (2, b"", 1)


def test_a_closed_pipe_is_no_error(folder):
    command = [*COMMAND, "table", str(folder / "fx.tav"), "--term", "a,b", "--csv", "-"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=plain_environment())
    process.stdout.close()
    with process.stderr as errors:
        assert errors.read() == b""
    assert process.wait(timeout=SECONDS) == 0


@pytest.mark.skipif(os.name == "nt", reason="of POSIX shells")
@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_stream_that_is_closed_from_the_start_is_no_error(closed):
    command = f"{' '.join(COMMAND)} --version {closed}"
    done = subprocess.run(
        command, shell=True, capture_output=True, env=plain_environment(), timeout=SECONDS, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.filterwarnings("default:feature")
def test_errors_and_warnings_cannot_steer_the_terminal(folder, monkeypatch, capsys):
    def named_by_another(*_, **__):
        warnings.warn("feature \x1b[31mred", stacklevel=1)
        raise ValueError("feature \x1b]0;title\x07")

    monkeypatch.setattr(answers, "decomposed", named_by_another)
    assert run(["explain", str(folder / "fx.tav")]) == 2
    lines = capsys.readouterr().err
    assert "\x1b" not in lines
    assert "\x07" not in lines
    assert "warning: feature �[31mred" in lines
    assert "feature �]0;title�" in lines


SECONDS = 120  # to wait for another process before giving up


WORKS_WITHOUT_END = """
from treeanova.cli import answers
once = answers.decompose
def endless(*given, **options):
    while True:
        once(*given, **options)
answers.decompose = endless
"""


STOPS_WHEN_ALL_IS_WRITTEN_BUT_THE_NAME = """
import os, time
from treeanova.cli import terminal
terminal._SECONDS_TO_STOP += 60
os.fsync = lambda _: time.sleep(600)
"""


def next_shown(terminal):
    """What a terminal shows within a moment; None once nobody can write to it any more."""
    if not select.select([terminal], [], [], 0.05)[0]:
        return b""
    try:
        return os.read(terminal, 1024) or None
    except OSError:  # how Linux says it
        return None


def interrupted(folder, arguments, shows, *, leaves=lambda: True, before="pass"):
    """Status and output of a command on a terminal, stopped by Ctrl-C once it shows a text and a condition holds."""
    import pty

    code = f"{before}\nimport runpy, sys; sys.argv[0] = 'treeanova'; runpy.run_module('treeanova', run_name='__main__')"
    terminal, stderr = pty.openpty()
    command = [sys.executable, "-c", code, *map(str, arguments)]
    variables = {**plain_environment(), "TERM": "xterm"}
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=stderr, env=variables) as process:
        os.close(stderr)
        shown = bytearray()

        def show_until(done, *, what):
            end = time.monotonic() + SECONDS
            while True:
                part = next_shown(terminal)
                shown.extend(part or b"")
                if done(part):
                    return
                if part is None or time.monotonic() > end:
                    how = "ended" if part is None else f"had {SECONDS} s and still ran"
                    pytest.fail(f"the command {how} before {what}; it showed:\n{shown.decode(errors='replace')}")

        try:
            show_until(lambda _: shows in shown and leaves(), what=f"it showed {shows!r} and left what it should")
            process.send_signal(signal.SIGINT)
            show_until(lambda part: part is None, what="it stopped")
            output, _ = process.communicate(timeout=SECONDS)
        finally:
            process.kill()
            os.close(terminal)
    assert b"\x1b" not in shown
    assert last_line(shown) == b""
    return process.returncode, output


def last_line(shown):
    """The line of the cursor, as a terminal shows it: a carriage return goes back to its beginning."""
    cells = bytearray()
    for part in shown.replace(b"\r\n", b"\n").split(b"\n")[-1].split(b"\r"):
        cells[: len(part)] = part
    return bytes(cells).rstrip()


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals and SIGINT are Unix")
def test_progress_on_a_terminal_and_ctrl_c_stops_the_work(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(3000, 9)) + rng.normal(size=(3000, 1)), columns=list("abcdefghi"))
    model = fit(xgboost.XGBRegressor(n_estimators=50, max_depth=6, n_jobs=1), X, X.prod(axis=1))
    model.save_model(tmp_path / "slow.json")  # many steps, each of them shown
    X.to_csv(tmp_path / "rows.csv", index=False)
    before = sorted(path.name for path in tmp_path.iterdir())
    arguments = ["explain", "slow.json", "--data", "rows.csv", "--save", "fx.tav", "--out", "report.html"]
    assert interrupted(tmp_path, arguments, b"orders", before=WORKS_WITHOUT_END) == (130, b"")
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals and SIGINT are Unix")
@pytest.mark.parametrize(("option", "name"), [("--save", "fx.tav"), ("--out", "report.html")])
def test_ctrl_c_while_writing_leaves_the_old_file_alone(folder, tmp_path, option, name, data):
    if option == "--out":
        pytest.importorskip("vl_convert")
    (tmp_path / name).write_text("old")
    arguments = ["explain", folder / "model.json", *data, option, name]
    found = interrupted(
        tmp_path,
        arguments,
        f"writing {name}".encode(),
        leaves=lambda: len(list(tmp_path.iterdir())) == 2,
        before=STOPS_WHEN_ALL_IS_WRITTEN_BUT_THE_NAME,
    )
    assert found == (130, b"")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "old")]
