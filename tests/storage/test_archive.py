"""The format of files: nothing pickled, damaged or foreign files refused, written completely or not at all."""

from __future__ import annotations

import io
import json
import os
import pathlib
import pickle
import stat
import subprocess
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest

from tests.support.archives import (
    arrays_in_file,
    assert_same_bits,
    assert_same_decomposition,
    reference,
    saved_and_loaded,
)
from tests.support.decompositions import purified
from treeanova import load
from treeanova.data.features import Feature, Numeric, Schema
from treeanova.density.kinds import Uniform
from treeanova.errors import ArchiveError
from treeanova.model import Effects, Grid
from treeanova.model.axes import IntervalAxis
from treeanova.storage import codec as archive
from treeanova.storage.codec import SCHEMA

# Nothing pickled


@pytest.mark.parametrize("case", ["multiclass", "hist categories", "catboost categories"])
def test_a_file_holds_json_and_plain_arrays_only(make_case, case, tmp_path):
    fx, _ = make_case(case)
    fx.save(tmp_path / "fx.tav")
    for name, array in arrays_in_file(tmp_path / "fx.tav").items():
        assert name.endswith(".npy")
        assert array.dtype == np.float64 or (name.startswith("rows/") and array.dtype.kind in "ui")
    with zipfile.ZipFile(tmp_path / "fx.tav") as file:
        assert json.loads(file.read("header.json"))["schema"] == SCHEMA
        for name in file.namelist():
            assert not file.read(name).startswith(b"\x80")  # as pickles do
            assert file.read(name).startswith(b"{" if name == "header.json" else b"\x93NUMPY")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "fx.tav"
    reference().save(path)
    return path


def rewritten(saved, path, parts):
    """A copy of a file with some parts replaced; None leaves a part out."""
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(path, "w") as new:
        for name in {**dict.fromkeys(old.namelist()), **parts}:
            content = parts.get(name, old.read(name) if name in old.namelist() else None)
            if content is not None:
                new.writestr(name, content)
    return path


def with_header(saved, path, change):
    with zipfile.ZipFile(saved) as file:
        header = json.loads(file.read("header.json"))
    change(header)
    return rewritten(saved, path, {"header.json": json.dumps(header)})


def npy(array, *, allow_pickle=False):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


def test_a_copy_of_all_parts_is_read(saved, tmp_path):
    assert load(rewritten(saved, tmp_path / "copy.tav", {})) == reference()
    assert load(with_header(saved, tmp_path / "copy.tav", lambda header: None)) == reference()


class Bomb:
    def __reduce__(self):
        return pathlib.Path.touch, (pathlib.Path("exploded"),)


def test_a_pickle_in_a_part_is_refused_and_not_run(saved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bomb = npy(np.array([Bomb()], dtype=object), allow_pickle=True)
    with pytest.raises(ArchiveError, match="damaged or foreign"):
        load(rewritten(saved, tmp_path / "fx.tav", {"pure/intercept.npy": bomb}))
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    "name",
    ["os:system", "antigravity:fly", "builtins:exec", "treeanova.features:describe", "treeanova.readers.catboost:json",
     "treeanova.readers.absent:Thing", "treeanova.archive:zipfile", "treeanova.readers.xgboost:Absent", "", ":"],
)  # fmt: skip
@pytest.mark.parametrize("where", ["schema", "feature", "encoder"])
def test_only_treeanovas_own_classes_are_made(saved, tmp_path, name, where):
    def change(header):
        schema = header["features"]
        feature = schema["fields"]["features"]["tuple"][0]
        {"schema": schema, "feature": feature, "encoder": feature["fields"]["encoder"]}[where]["type"] = name

    with pytest.raises(ArchiveError, match="one that does not fit"):
        load(with_header(saved, tmp_path / "fx.tav", change))
    assert "antigravity" not in sys.modules


def test_loading_needs_no_model_library(make_case, tmp_path):
    paths = [tmp_path / "catboost.tav", tmp_path / "hist.tav"]
    for path in paths:
        make_case(f"{path.stem} categories")[0].save(path)
    code = (
        "import sys, treeanova; [treeanova.load(path) for path in sys.argv[1:]]; "
        "print([m for m in ('catboost', 'xgboost', 'lightgbm', 'sklearn', 'interpret', 'pickle5') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, *paths], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Damaged and foreign files


def outcome(path, expected, rows):
    """'refused' for ArchiveError, 'same' for a decomposition with the same scores, else what went wrong."""
    try:
        found = load(path)
        same = found == expected and np.array_equal(found.decision_function(rows), expected.decision_function(rows))
    except ArchiveError:
        return "refused"
    except Exception as error:  # noqa: BLE001  any other kind is what this looks for
        return type(error).__name__
    return "same" if same else "other"


ROWS = np.array([[0.5, "a"], [-999, "b"], [np.nan, "z"]], dtype=object)


def test_truncated_files_are_refused(saved, tmp_path):
    content, path = saved.read_bytes(), tmp_path / "cut.tav"
    for length in {*range(0, len(content), 23), *range(len(content) - 60, len(content)), 0, 1, 4, 22}:
        path.write_bytes(content[:length])
        with pytest.raises(ArchiveError, match=r"cut\.tav must be a whole file saved by treeanova"):
            load(path)


def test_files_cut_inside_are_refused(saved, tmp_path):
    content, path = saved.read_bytes(), tmp_path / "cut.tav"
    expected = reference()
    found = set()
    for start in range(0, len(content) - 40, 41):
        path.write_bytes(content[:start] + content[start + 40 :])
        found.add(outcome(path, expected, ROWS))
    assert found <= {"refused", "same"}


def test_a_part_that_claims_to_go_on_after_the_end_is_refused(saved, tmp_path):
    path = rewritten(saved, tmp_path / "fx.tav", {})
    content = bytearray(path.read_bytes())
    entry = content.rindex(b"PK\x01\x02")
    content[entry + 20 : entry + 28] = (10**6).to_bytes(4, "little") * 2  # sizes, packed and not
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match="damaged or foreign"):
        load(path)


def test_changed_bytes_are_noticed(saved, tmp_path):
    """Three hundred files with one to four bytes changed: refused, or the same where the bytes mean nothing."""
    rng = np.random.default_rng(0)
    content, path, expected = saved.read_bytes(), tmp_path / "changed.tav", reference()
    found = []
    for _ in range(300):
        changed = bytearray(content)
        for position in rng.integers(0, len(content), rng.integers(1, 5)):
            changed[position] ^= int(rng.integers(1, 256))
        path.write_bytes(changed)
        found.append(outcome(path, expected, ROWS))
    assert set(found) <= {"refused", "same"}
    assert found.count("refused") > 100


@pytest.mark.parametrize("value", [None, 0, -1, 2.5, "x", [], {}, [[]], True])
def test_changed_headers_are_refused_or_harmless(saved, tmp_path, value):
    with zipfile.ZipFile(saved) as file:
        names = list(json.loads(file.read("header.json")))
    expected, path = reference(), tmp_path / "fx.tav"
    for name in names:
        with_header(saved, path, lambda header, name=name: header.update({name: value}))
        is_harmless = name in {"density", "derived", "moments", "raw", "trees", "writer"}
        assert outcome(path, expected, ROWS) in ({"refused", "same"} if is_harmless else {"refused"}), name


def test_headers_without_an_entry_are_refused(saved, tmp_path):
    with zipfile.ZipFile(saved) as file:
        names = list(json.loads(file.read("header.json")))
    assert len(names) > 8
    for name in set(names) - {"writer"}:
        with pytest.raises(ArchiveError, match=r"fx\.tav (must be|has schema)"):
            load(with_header(saved, tmp_path / "fx.tav", lambda header, name=name: header.pop(name)))


def part_names(saved):
    with zipfile.ZipFile(saved) as file:
        return file.namelist()


def test_files_without_a_part_are_refused(saved, tmp_path):
    for name in part_names(saved):
        with pytest.raises(ArchiveError, match="damaged or foreign"):
            load(rewritten(saved, tmp_path / "fx.tav", {name: None}))


@pytest.mark.parametrize("name", ["pure/terms/0-1.npy", "raw/terms/0-1.npy", "pure/terms/0.npy", "pure/intercept.npy"])
@pytest.mark.parametrize(
    "content", [npy(np.zeros((5, 5, 5))), npy(np.zeros(())), b"", b"\x93NUMPY", npy(np.zeros(3))[:-4]],
    ids=["shape", "scalar", "empty", "magic", "short"],
)  # fmt: skip
def test_arrays_that_do_not_fit_are_refused(saved, tmp_path, name, content):
    with pytest.raises(ArchiveError, match=r"fx\.tav must be a whole file saved by treeanova"):
        load(rewritten(saved, tmp_path / "fx.tav", {name: content}))


@pytest.mark.parametrize(
    ("name", "array"),
    [("weights/0-1.npy", np.ones((5, 5))), ("moments/variance.npy", np.ones((9, 9))),
     ("axes/0/bounds.npy", np.ones((1, 1))),
     ("pure/terms/0.npy", np.array([["a", "b"], ["c", "d"]])), ("pure/terms/0.npy", np.ones((2, 2), dtype=complex))],
)  # fmt: skip
def test_arrays_of_other_shapes_or_kinds_are_refused(saved, tmp_path, name, array):
    path = rewritten(saved, tmp_path / "fx.tav", {name: npy(array)})
    with pytest.raises(ArchiveError, match="must be a whole file saved by treeanova"):
        load(path)


def test_an_array_that_claims_to_be_huge_is_refused(saved, tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**15,)})
    with pytest.raises(ArchiveError, match="damaged or foreign"):
        load(rewritten(saved, tmp_path / "fx.tav", {"pure/intercept.npy": header.getvalue()}))


def npy_of_zeros(n):
    """The start of an array of n zeros, and pieces of the rest."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (n,)})
    return [header.getvalue(), *(bytes(min(2**20, 8 * n - start)) for start in range(0, 8 * n, 2**20))]


BOMBS = {
    "array": ("pure/intercept.npy", lambda: npy_of_zeros(35_000_000)),
    "header": ("header.json", lambda: [b'{"a": [', *[b"[]," * 10**6] * 6, b"[]]}"]),
}


@pytest.mark.parametrize("case", BOMBS)
def test_a_small_file_that_unpacks_to_much_is_refused_before_it_does(case, saved, tmp_path):
    """280 MB of zeros in 300 kB, or a header of 18 MB, which would take twenty times as much once parsed."""
    name, pieces = BOMBS[case]
    path = rewritten(saved, tmp_path / "fx.tav", {name: None})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as file, file.open(name, "w") as part:
        for piece in pieces():
            part.write(piece)
    assert path.stat().st_size < 2_000_000
    tracemalloc.start()
    try:
        with pytest.raises(ArchiveError, match=r"fx\.tav must unpack to what a file of [\d,]+ bytes may hold, got"):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_an_array_that_claims_more_than_its_part_holds_is_refused_before_it_is_made(saved, tmp_path):
    claim = npy_of_zeros(10**8)[0] + bytes(800)
    path = rewritten(saved, tmp_path / "fx.tav", {"pure/intercept.npy": claim})
    tracemalloc.start()
    try:
        with pytest.raises(ArchiveError, match="damaged or foreign"):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_compressions_than_deflate_are_refused(method, saved, tmp_path):
    """They shrink zeros far more than a thousandfold."""
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(tmp_path / "fx.tav", "w", method) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    with pytest.raises(ArchiveError, match=r"fx\.tav must be compressed by deflate, got another method"):
        load(tmp_path / "fx.tav")


def test_arrays_of_one_number_are_saved_in_files_that_load(tmp_path, monkeypatch):
    """2,000 times smaller limits, so that a few megabytes will do: the file is as long as the limits ask for."""
    monkeypatch.setattr(archive, "_ALWAYS_UNPACKED", archive._ALWAYS_UNPACKED // 2000)
    schema = Schema((Feature("a", Numeric()), Feature("b", Numeric())))
    axes = tuple(IntervalAxis(name, -1, np.arange(399.0)) for name in "ab")
    grid = Grid(schema, axes)
    fx = purified(Effects(grid, np.zeros(1), {(0, 1): np.zeros((400, 400, 1))}), Uniform().bind(grid, None))
    assert saved_and_loaded(fx, tmp_path) == fx
    with zipfile.ZipFile(tmp_path / "fx.tav") as file:
        total = sum(part.file_size for part in file.infolist() if part.filename != "padding")
        packed = sum(part.compress_size for part in file.infolist() if part.filename != "padding")
        total += json.loads(file.read("header.json"))["derived"]  # the weights, which follow from their marginals
    assert total > 150 * packed
    assert total / 100 <= (tmp_path / "fx.tav").stat().st_size < total / 90
    with pytest.raises(ArchiveError, match="must unpack to what a file of"):
        load(rewritten_packed(tmp_path / "fx.tav", tmp_path / "without.tav"))


def rewritten_packed(saved, path):
    """A copy of a file without its padding."""
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            if name != "padding":
                new.writestr(name, old.read(name))
    return path


def test_what_follows_from_the_arrays_counts_before_it_is_made(saved, tmp_path):
    """A file that states what follows from it is as long as the limits ask for, and refused where it is shorter."""
    header, arrays = archive.read(saved)
    archive.write(tmp_path / "fx.tav", {**header, "derived": 2**28 + 1}, arrays)
    assert (tmp_path / "fx.tav").stat().st_size >= 2**28 / 100
    assert archive.read(tmp_path / "fx.tav")[0]["derived"] == 2**28 + 1
    with pytest.raises(ArchiveError, match=r"must unpack to what a file of [\d,]+ bytes may hold, got 268,\d+,\d+"):
        archive.read(rewritten_packed(tmp_path / "fx.tav", tmp_path / "without.tav"))
    for value in (-1, 2.5, "x", None, True):
        with pytest.raises(ArchiveError, match="damaged or foreign"):
            archive.read(with_header(saved, tmp_path / "fx.tav", lambda h, value=value: h.update(derived=value)))


# Many arrays, and arrays that do not shrink


def many_arrays():
    """Small and large arrays of floats, an array of integers, one without entries and one number."""
    rng = np.random.default_rng(0)
    arrays = {f"many/{i}": rng.random((i % 4, 2)) for i in range(30)}
    return arrays | {"large": rng.random((100, 100)), "ints": np.arange(5), "number": np.array(2.5)}


@pytest.mark.parametrize("max_parts", [10, 1000])
def test_many_small_arrays_come_back_from_one_part(max_parts, tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "_MAX_PARTS", max_parts)
    arrays, path = many_arrays(), tmp_path / "fx.tav"
    archive.write(path, {"entry": 1}, arrays)
    header, again = archive.read(path)
    assert header["entry"] == 1
    assert again.keys() == arrays.keys()
    for name, array in arrays.items():
        assert_same_bits(again[name], array)
    expected = {"header.json", "joined.npy", "large.npy", "ints.npy"}
    assert max_parts == 1000 or set(part_names(path)) == expected


@pytest.mark.parametrize("shape", [[3, 3], [-1, 2], [10**9, 10**9], "x", [], None])
def test_joined_arrays_that_do_not_fit_are_refused(shape, tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "_MAX_PARTS", 10)
    archive.write(tmp_path / "fx.tav", {}, many_arrays())
    changed = with_header(tmp_path / "fx.tav", tmp_path / "b.tav", lambda h: h["joined"].update({"many/1": shape}))
    with pytest.raises(ArchiveError, match="damaged or foreign"):
        archive.read(changed)


def test_only_parts_that_shrink_are_packed(tmp_path):
    arrays = {"digits": np.random.default_rng(0).random(10_000), "zeros": np.zeros(10_000)}
    archive.write(tmp_path / "fx.tav", {}, arrays)
    with zipfile.ZipFile(tmp_path / "fx.tav") as file:
        methods = {part.filename: part.compress_type for part in file.infolist()}
    assert methods["digits.npy"] == zipfile.ZIP_STORED
    assert methods["zeros.npy"] == zipfile.ZIP_DEFLATED


def test_a_header_nested_too_deep_is_refused(saved, tmp_path):
    with pytest.raises(ArchiveError, match="damaged or foreign"):
        load(rewritten(saved, tmp_path / "fx.tav", {"header.json": "[" * 200_000}))


@pytest.mark.parametrize("schema", [SCHEMA + 1, 99, 0, -1, "1", None])
def test_other_schemas_are_refused(saved, tmp_path, schema):
    path = with_header(saved, tmp_path / "fx.tav", lambda header: header.update(schema=schema))
    with pytest.raises(ArchiveError, match=f"has schema {schema}, this treeanova reads {SCHEMA}; update it"):
        load(path)


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "fx.tav"
    for content in (b"", b"PK", b"not an archive" * 99, b"\x89PNG\r\n\x1a\n" + bytes(500), pickle.dumps({"a": 1})):
        path.write_bytes(content)
        with pytest.raises(
            ArchiveError, match=r"fx\.tav must be a whole file saved by treeanova, got a damaged or foreign"
        ):
            load(path)
    np.savez(tmp_path / "arrays.npz", a=np.arange(3))
    with pytest.raises(ArchiveError, match=r"arrays\.npz must be a whole file"):
        load(tmp_path / "arrays.npz")


@pytest.mark.parametrize(
    "header", ["[]", "3", "null", "{}", '{"kind": "other"}', "{", '{"kind": "treeanova decomposition"}']
)
def test_foreign_archives_are_refused(tmp_path, header):
    with zipfile.ZipFile(tmp_path / "fx.tav", "w") as file:
        file.writestr("header.json", header)
    with pytest.raises(ArchiveError, match=r"fx\.tav must be a"):
        load(tmp_path / "fx.tav")


def test_paths_that_are_no_files_keep_their_own_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"`path` must be a file .*, no such file: '.*absent\.tav'; check it"):
        load(tmp_path / "absent.tav")
    with pytest.raises(IsADirectoryError, match=r"`path` must be a file .*, got the folder '.*'; add a name"):
        load(tmp_path)


# Saving is all or nothing


def failing(error):
    def fail(*args, **options):
        raise error

    return fail


@pytest.mark.parametrize("where", ["fsync", "write_array", "later write_array", "dumps"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt("stop")])
def test_a_save_that_fails_leaves_the_old_file_and_no_other(regression, tmp_path, monkeypatch, where, error):
    path = tmp_path / "fx.tav"
    reference().save(path)
    old = path.read_bytes()
    fx, _ = regression
    if where == "later write_array":
        real, calls = np.lib.format.write_array, []

        def fifth(*args, **options):
            calls.append(args)
            return failing(error)() if len(calls) == 5 else real(*args, **options)

        monkeypatch.setattr(np.lib.format, "write_array", fifth)
    else:
        target = {"fsync": (os, "fsync"), "write_array": (np.lib.format, "write_array"), "dumps": (json, "dumps")}[
            where
        ]
        monkeypatch.setattr(*target, failing(error))
    with pytest.raises(type(error), match=str(error)):
        fx.save(path)
    assert [path.name for path in tmp_path.iterdir()] == ["fx.tav"]
    assert path.read_bytes() == old


def test_a_folder_of_that_name_stays_as_it_is(tmp_path):
    (tmp_path / "fx.tav").mkdir()
    with pytest.raises(IsADirectoryError, match=r"`path` must be a file, got the folder '.*fx\.tav'"):
        reference().save(tmp_path / "fx.tav")
    assert [path.name for path in tmp_path.iterdir()] == ["fx.tav"]


def test_a_rename_that_fails_leaves_the_old_file(regression, tmp_path, monkeypatch):
    reference().save(tmp_path / "fx.tav")
    old = (tmp_path / "fx.tav").read_bytes()
    monkeypatch.setattr(pathlib.Path, "replace", failing(OSError("no rename")))
    with pytest.raises(OSError, match="no rename"):
        regression[0].save(tmp_path / "fx.tav")
    assert (tmp_path / "fx.tav").read_bytes() == old


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(IsADirectoryError, match=r"`path` must be a file, got the folder '.*'; add a name like fx\.tav"):
        reference().save(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"`path` must be in a folder that exists, got '.*absent"):
        reference().save(tmp_path / "absent" / "fx.tav")


KILLED = """
import os, signal, sys
import numpy as np
from tests.support.archives import reference
calls = []
real = np.lib.format.write_array
def die(*args):
    os.kill(os.getpid(), signal.SIGKILL)
def third(*args, **options):
    calls.append(args)
    return die() if len(calls) == 3 else real(*args, **options)
if sys.argv[2] == "third array":
    np.lib.format.write_array = third
else:
    os.fsync = die
reference().save(sys.argv[1])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.parametrize("moment", ["third array", "all written"])
def test_a_kill_while_saving_leaves_the_old_file(saved, tmp_path, moment):
    path = tmp_path / "fx.tav"
    path.write_bytes(saved.read_bytes())
    root = pathlib.Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", KILLED, path, moment], cwd=root, capture_output=True, check=False)
    assert done.returncode == -9, done.stderr.decode()
    assert path.read_bytes() == saved.read_bytes()
    assert load(path) == reference()


def test_saving_replaces_the_old_file(regression, tmp_path):
    fx, rows = regression
    reference().save(tmp_path / "fx.tav")
    fx.save(str(tmp_path / "fx.tav"))
    assert [path.name for path in tmp_path.iterdir()] == ["fx.tav"]
    assert_same_decomposition(fx, load(str(tmp_path / "fx.tav")), rows)


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_a_saved_file_may_be_read_by_those_who_may_read_other_files(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    reference().save(tmp_path / "fx.tav")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "fx.tav")]
    assert modes[0] == modes[1]


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444])
def test_a_file_that_is_replaced_keeps_its_mode(mode, tmp_path, monkeypatch):
    path = tmp_path / "fx.tav"
    path.write_bytes(b"old")
    path.chmod(mode)
    seen, real = [], os.fsync

    def look(descriptor):
        seen.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", look)
    reference().save(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert load(path) == reference()
    assert [found & 0o077 & ~mode for found in seen] == [0]  # nor may others read it while it is written


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")
@pytest.mark.parametrize("is_there", [True, False])
def test_saving_through_a_link_writes_to_what_it_points_to(is_there, tmp_path):
    for name in ("files", "links"):
        (tmp_path / name).mkdir()
    target, link = tmp_path / "files" / "fx.tav", tmp_path / "links" / "latest.tav"
    (tmp_path / "links" / "second").symlink_to(os.path.join("..", "files", "fx.tav"))  # noqa: PTH118
    link.symlink_to("second")
    if is_there:
        target.write_bytes(b"old")
    reference().save(link)
    assert link.readlink() == pathlib.Path("second")
    assert not target.is_symlink()
    assert load(target) == reference()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["files", "fx.tav", "latest.tav", "links", "second"]


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")
def test_links_in_a_circle_are_refused(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="levels of symbolic links"):
        reference().save(tmp_path / "a")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are POSIX")
def test_a_pipe_is_written_to_and_stays(saved, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    code = "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())"
    with subprocess.Popen([sys.executable, "-c", code, tmp_path / "pipe"], stdout=subprocess.PIPE) as reader:
        reference().save(tmp_path / "pipe")
        (tmp_path / "copy.tav").write_bytes(reader.communicate(timeout=60)[0])
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert load(tmp_path / "copy.tav") == reference()


def test_names_may_be_as_long_as_the_file_system_allows(tmp_path):
    path = tmp_path / f"{'n' * 251}.tav"
    reference().save(path)
    assert load(path) == reference()
