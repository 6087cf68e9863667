"""Damaged files of every format: refused by name and with a documented error, or read as the library reads them.

Each file is read in a process that may use 2 GB of addresses and 30 seconds of CPU time. ``TREEANOVA_FUZZ_CASES`` is
the number of files of all formats; ``TREEANOVA_FUZZ_REPORT`` a file to which counts are added.
"""

from __future__ import annotations

import collections
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys

import numpy as np
import pytest

if sys.platform != "linux":
    pytest.skip("limits of memory are those of Linux", allow_module_level=True)
from tests.readers.damage import SUFFIXES, damage, seeds
from tests.readers.damage_worker import MODULES

N_CASES = int(os.environ.get("TREEANOVA_FUZZ_CASES", "600"))
PATIENCE = 600  # seconds for what waits without working; the worker itself counts its CPU time
WITHOUT_LIBRARY = {"pmml", "spark"}
PROGRAMS = {"pickle", "joblib"}  # loading one runs what it contains, which may end the process once bytes are changed
DOCUMENTED = {"ModelFileError", "UnsupportedModelError"}


class Worker:
    """A process that answers questions; started again after it has died or was too slow."""

    def __init__(self, role: str, kind: str) -> None:
        self.command = [sys.executable, "-m", "tests.readers.damage_worker", role, kind]
        self.process: subprocess.Popen[str] | None = None

    def ask(self, path: pathlib.Path) -> dict[str, object]:
        """The answer, or how the process ended."""
        if self.process is None:
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                env=environment, cwd=pathlib.Path(__file__).parents[2],
            )  # fmt: skip
        self.process.stdin.write(json.dumps(str(path)) + "\n")
        self.process.stdin.flush()
        ready = select.select([self.process.stdout], [], [], PATIENCE)[0]
        line = self.process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)
        return {"error": "died" if ready else "too slow", "message": f"exit {self.close()}"}

    def close(self) -> int | None:
        """End the process, and give its exit code."""
        if self.process is None:
            return None
        self.process.kill()
        with self.process:
            code = self.process.wait()
        self.process = None
        return code


def outcome(kind, whole, answer, library, path):
    """A word for what happened, which begins with "wrong" if it must not."""
    if "scores" not in answer:
        if answer["error"] not in DOCUMENTED:
            has_ended = answer["error"] == "died" and kind in PROGRAMS
            return "ended the process" if has_ended else f"wrong: {answer['error']}"
        if str(path) not in answer["message"] or "\n" in answer["message"]:
            return "wrong: the error does not name the file in one line"
        return f"refused: {answer['error']}"
    is_same = answer["content"] == whole["content"]
    if kind in WITHOUT_LIBRARY:
        return "read: the same" if is_same else "read: other numbers, no library"
    expected = library.ask(path)
    if "scores" in expected:
        return "read: as the library" if agree(answer["scores"], expected["scores"]) else "wrong: not as the library"
    return "read: the same, which the library refuses" if is_same else "read: other numbers, which the library refuses"


def agree(scores, expected):
    scores, expected = np.array(scores), np.array(expected)
    if scores.shape != expected.shape:
        scores, expected = scores.reshape(len(scores), -1)[:, -1:], expected.reshape(len(expected), -1)[:, -1:]
    size = np.abs(scores).max(initial=0)
    return bool(np.allclose(scores, expected, rtol=1e-4, atol=1e-4 * size, equal_nan=True))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", SUFFIXES)
def test_damaged_files_are_refused_or_read_as_the_library_reads_them(kind, tmp_path):
    pytest.importorskip(MODULES.get(kind.partition("-")[0], "numpy"))
    sound = seeds(kind, tmp_path / "sound")
    reader, library = Worker("read", kind), Worker("library", kind)
    rng = np.random.default_rng(len(kind))
    counts, wrong = collections.Counter(), []
    try:
        whole = [reader.ask(path) for path in sound]
        for path, answer in zip(sound, whole, strict=True):
            expected = "read: the same" if kind in WITHOUT_LIBRARY else "read: as the library"
            assert outcome(kind, answer, answer, library, path) == expected
        for case in range(N_CASES // len(SUFFIXES)):
            place = tmp_path / f"damaged{SUFFIXES[kind]}"
            what = damage(kind, sound[case % len(sound)], place, rng)
            word = outcome(kind, whole[case % len(sound)], reader.ask(place), library, place)
            counts[word] += 1
            if word.startswith(("wrong", "read: other")):
                wrong += [f"{case}: {word} ({what})"] if word.startswith("wrong") else []
                keep(kind, case, word, what, place)
            shutil.rmtree(place) if place.is_dir() else place.unlink()
    finally:
        reader.close()
        library.close()
    report(kind, counts)
    assert not wrong


def keep(kind, case, word, what, place):
    """Keep what may be looked at later, if a report is written."""
    if "TREEANOVA_FUZZ_REPORT" in os.environ:
        folder = pathlib.Path(os.environ["TREEANOVA_FUZZ_REPORT"]).with_suffix(".files")
        folder.mkdir(exist_ok=True)
        target = folder / f"{kind}-{case}-{what.rpartition(' ')[2]}-{word.split(':')[0]}{place.suffix}"
        (shutil.copytree if place.is_dir() else shutil.copy)(place, target)


def report(kind, counts):
    """Add counts to a file, if it is named."""
    if "TREEANOVA_FUZZ_REPORT" in os.environ:
        with pathlib.Path(os.environ["TREEANOVA_FUZZ_REPORT"]).open("a", encoding="utf-8") as file:
            file.writelines(f"{kind}: {n} {word}\n" for word, n in sorted(counts.items()))
