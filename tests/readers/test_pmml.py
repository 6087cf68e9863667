"""PMML: kept documents, compared with what PMML4S predicted on, above and below every threshold."""

from __future__ import annotations

import json
import pathlib
import zipfile

import numpy as np
import pytest

import treeanova
from treeanova import read_model
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.effects import class_probabilities
from treeanova.readers.pmml.document import words

pd = pytest.importorskip("pandas")
KEPT = pathlib.Path(__file__).parent / "models" / "pmml.zip"
NAMES = sorted(name.removesuffix(".pmml") for name in zipfile.ZipFile(KEPT).namelist() if name.endswith(".pmml"))
STUMP = """<PMML version="4.4"><Header/><DataDictionary>
<DataField name="a" optype="continuous" dataType="{kind}"/>
<DataField name="c" optype="categorical" dataType="string"><Value value="u"/><Value value="v"/></DataField>
</DataDictionary>{derived}
<TreeModel functionName="regression" {options}><MiningSchema><MiningField name="a" {mining}/>
<MiningField name="c" {category}/></MiningSchema>
<Node id="0" score="0"><True/>{children}</Node></TreeModel></PMML>"""
PAIR = (
    '<Node id="1" score="1"><SimplePredicate field="{0}" operator="lessOrEqual" value="0.1"/></Node>'
    '<Node id="2" score="2"><SimplePredicate field="{0}" operator="greaterThan" value="0.1"/></Node>'
)


def stump(tmp_path, children=None, *, kind="double", derived="", options="", mining="", category=""):
    path = tmp_path / "model.pmml"
    children = PAIR.format("a") if children is None else children
    text = STUMP.format(
        kind=kind, derived=derived, options=options, mining=mining, category=category, children=children
    )
    path.write_text(text, encoding="utf-8")
    return path


def score(path, a, c="u"):
    return read_model(path).score(pd.DataFrame({"a": a, "c": [c] * len(a)})).ravel().tolist()


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pmml")
    with zipfile.ZipFile(KEPT) as archive:
        archive.extractall(folder)
    return folder


def content(kept, name):
    found = json.loads((kept / f"{name}.json").read_text(encoding="utf-8"))
    rows = pd.DataFrame(found["rows"], columns=list("abc"))
    rows[["a", "b"]] = rows[["a", "b"]].astype(float)
    return rows, np.array(found["predicted"], dtype=float)


@pytest.mark.parametrize("name", NAMES)
def test_documents(kept, name):
    rows, expected = content(kept, name)
    forest = read_model(kept / f"{name}.pmml")
    found = forest.score(rows)
    if forest.schema.classes:
        found = class_probabilities(forest.schema, found)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-9, atol=1e-9)


def test_a_decomposition_adds_up(kept):
    rows, expected = content(kept, "sum")
    fx = treeanova.decompose(kept / "sum.pmml", rows)
    np.testing.assert_allclose(fx.decision_function(rows), expected, rtol=1e-9, atol=1e-9)


def test_numbers_of_the_type_float_are_compared_in_float32(tmp_path):
    values = [float(np.float32(0.1)), 0.1, np.nextafter(np.float32(0.1), np.float32(1))]
    assert score(stump(tmp_path, kind="float"), values) == [1.0, 1.0, 2.0]
    assert score(stump(tmp_path), values) == [2.0, 1.0, 2.0]
    derived = (
        '<TransformationDictionary><DerivedField name="float(a)" optype="continuous" dataType="float">'
        '<FieldRef field="a"/></DerivedField></TransformationDictionary>'
    )
    assert score(stump(tmp_path, PAIR.format("float(a)"), derived=derived), values) == [1.0, 1.0, 2.0]


def test_surrogates_and_missing_values(tmp_path):
    first = '<SimplePredicate field="a" operator="lessThan" value="0"/>'
    children = (
        f'<Node score="1"><CompoundPredicate booleanOperator="surrogate">{first}<True/></CompoundPredicate></Node>'
        '<Node score="2"><SimplePredicate field="a" operator="isNotMissing"/></Node>'
    )
    assert score(stump(tmp_path, children), [-1.0, 0.0, np.nan]) == [1.0, 2.0, 1.0]


def test_many_intervals_with_missing_values_in_one_of_them(tmp_path):
    tests = "".join(
        f'<Node score="{k}"><SimplePredicate field="a" operator="lessThan" value="{k}"/></Node>' for k in range(1, 6)
    )
    children = f'{tests}<Node id="d" score="9"><True/></Node>'
    for k in range(1, 6):
        text = children.replace(f'score="{k}">', f'score="{k}" id="here">', 1)
        path = stump(tmp_path, text, options='missingValueStrategy="defaultChild"')
        path.write_text(path.read_text(encoding="utf-8").replace('id="0"', 'id="0" defaultChild="here"', 1))
        assert score(path, [-1.0, 1.0, 2.5, 3.0, 4.9, 5.0, np.nan]) == [1.0, 2.0, 3.0, 4.0, 5.0, 9.0, float(k)]


def test_invalid_categories(tmp_path):
    children = (
        '<Node score="1"><SimplePredicate field="c" operator="equal" value="u"/></Node><Node score="2"><True/></Node>'
    )
    for category in ("", 'invalidValueTreatment="asIs"'):
        with pytest.raises(ValueError, match="column 'c' must hold categories of the model, got 'w'"):
            score(stump(tmp_path, children, category=category), [0.0], "w")
    options, category = 'missingValueStrategy="lastPrediction"', 'invalidValueTreatment="asMissing"'
    assert score(stump(tmp_path, children, options=options, category=category), [0.0], "w") == [0.0]


AS_MISSING = 'invalidValueTreatment="asMissing"'
INTERVAL = '<Interval closure="{}" leftMargin="0" rightMargin="10"/>'
OUTSIDE = "column 'a' must hold values that the model declares to be valid, got {}"


def declared(tmp_path, values, treatment="", kind="double"):
    """A stump that predicts 0 for a missing number, whose field declares values."""
    path = stump(tmp_path, kind=kind, mining=treatment, options='missingValueStrategy="lastPrediction"')
    text = path.read_text().replace(f'dataType="{kind}"/>', f'dataType="{kind}">{values}</DataField>')
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("values", "treatment", "rows", "expected"),
    [
        ('<Value value="-999" property="missing"/>', "", [-999, -998, np.nan], [0, 1, 0]),
        (
            "".join(f'<Value value="{word}" property="missing"/>' for word in ("-9", "9", "NA", "NaN")),
            "",
            [-9, 9, 0, 1],
            [0, 0, 1, 2],
        ),
        ('<Value value="-1" property="invalid"/>', AS_MISSING, [-1, -2, 2], [0, 1, 2]),
        (INTERVAL.format("closedClosed"), AS_MISSING, [-1, 0, 10, 11, np.inf], [0, 1, 2, 0, 0]),
        (INTERVAL.format("openOpen"), AS_MISSING, [0, 5e-324, 9.9, 10], [0, 1, 2, 0]),
        (INTERVAL.format("closedOpen") + '<Value value="20"/>', AS_MISSING, [0, 9, 10, 20, 21], [1, 2, 0, 2, 0]),
        ('<Interval closure="openClosed" rightMargin="0"/>', AS_MISSING, [-np.inf, -1, 0, 1], [0, 1, 1, 0]),
        ('<Value value="0"/><Value value="2"/>', AS_MISSING, [0, 1, 2, 3], [1, 0, 2, 0]),
        (INTERVAL.format("closedClosed"), 'invalidValueTreatment="asIs"', [-1, 20, np.nan], [1, 2, 0]),
    ],
)
def test_declared_numbers(tmp_path, values, treatment, rows, expected):
    assert score(declared(tmp_path, values, treatment), np.array(rows, dtype=float)) == expected


@pytest.mark.parametrize(
    ("values", "rows", "refused"),
    [
        (INTERVAL.format("closedClosed"), [-1, 0, 10], -1.0),
        (INTERVAL.format("closedOpen"), [0, 9, 10], 10.0),
        ('<Value value="0"/><Value value="2"/>', [0, 2, 1], 1.0),
        ('<Value value="5" property="invalid"/>', [4, 5], 5.0),
    ],
)
def test_numbers_outside_of_what_is_declared_are_refused(tmp_path, values, rows, refused):
    path = declared(tmp_path, values)
    with pytest.raises(ValueError, match=OUTSIDE.format(refused)):
        score(path, rows)
    assert score(path, [row for row in rows if row != refused] + [np.nan])[-1] == 0


def test_declared_numbers_of_the_type_float(tmp_path):
    path = declared(tmp_path, '<Value value="0.3" property="missing"/>', kind="float")
    assert score(path, [0.3, float(np.float32(0.3)), 0.2]) == [0, 0, 2]


def test_declared_numbers_are_missing_in_a_decomposition(tmp_path):
    rows = pd.DataFrame({"a": [-999.0, 0.0, 1.0, np.nan], "c": list("uvuv")})
    fx = treeanova.decompose(declared(tmp_path, '<Value value="-999" property="missing"/>'), rows)
    np.testing.assert_allclose(fx.decision_function(rows), [0, 1, 2, 0], atol=1e-12)
    fx.save(tmp_path / "fx.tav")
    np.testing.assert_allclose(treeanova.load(tmp_path / "fx.tav").decision_function(rows), [0, 1, 2, 0], atol=1e-12)


def test_numbers_that_only_the_outer_model_takes_as_they_are(tmp_path):
    """Models in models have schemas of their own, whose treatment is returnInvalid if they do not state another."""
    path = declared(tmp_path, INTERVAL.format("closedClosed"), 'invalidValueTreatment="asIs"')
    before, rest = path.read_text().split("<TreeModel")
    schema = rest[rest.index("<MiningSchema>") : rest.index("<Node")]
    inner = "<TreeModel" + rest.removesuffix("</PMML>")
    for nested, is_certain in ((inner, True), (inner.replace(' invalidValueTreatment="asIs"', ""), False)):
        path.write_text(
            f'{before}<MiningModel functionName="regression">{schema}<Segmentation multipleModelMethod="sum">'
            f"<Segment><True/>{nested}</Segment></Segmentation></MiningModel></PMML>"
        )
        if is_certain:
            assert score(path, [20.0]) == [2]
        else:
            with pytest.raises(ValueError, match=OUTSIDE.format("20.0")):
                score(path, [20.0])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ('<Value value="1" property="absent"/>', "values of field 'a' must be valid, invalid or missing, got 'absent'"),
        ('<Interval leftMargin="0" rightMargin="1"/>', "intervals of field 'a' must have two ends, open or closed"),
        ('<Interval closure="openOpen" leftMargin="NaN"/>', "intervals of field 'a' must have two ends"),
        ('<Intervall closure="openOpen"/>', "the element DataField must have what PMML knows, got 'Intervall'"),
    ],
)
def test_declarations_that_are_not_known(tmp_path, values, message):
    with pytest.raises(ValueError, match=message):
        read_model(declared(tmp_path, values))
    with pytest.raises(
        UnsupportedModelError, match=r"field 'a' must list its values, and refuse others .* got asValue"
    ):
        read_model(declared(tmp_path, "", 'invalidValueTreatment="asValue"'))


@pytest.mark.parametrize(
    ("values", "treatment", "expected"),
    [
        ('<Value value="u"/><Value value="v"/><Value value="w" property="missing"/>', "", [1, 2, 0]),
        ('<Value value="u"/><Value value="v"/><Value value="w" property="invalid"/>', AS_MISSING, [1, 2, 0]),
        ('<Value value="w" property="missing"/>', "", [1, 2, 0]),
        ('<Value value="w" property="invalid"/>', AS_MISSING, [1, 2, 0]),
        ('<Value value="u"/><Value value="v"/>', AS_MISSING, [1, 2, 0]),
    ],
)
def test_declared_categories(tmp_path, values, treatment, expected):
    """The last node names "w", which does not make it valid."""
    test = '<SimplePredicate field="c" operator="{}" value="{}"/>'
    children = "".join(
        f'<Node score="{k}">{test.format(*pair)}</Node>'
        for k, pair in enumerate([("equal", "u"), ("notEqual", "w"), ("equal", "w")], 1)
    )
    path = stump(tmp_path, children, category=treatment, options='missingValueStrategy="lastPrediction"')
    path.write_text(path.read_text().replace('<Value value="u"/><Value value="v"/>', values))
    assert [score(path, [0.0], label)[0] for label in "uvw"] == expected


def test_categories_that_a_predicate_names_but_the_field_does_not(tmp_path):
    children = '<Node score="1"><SimplePredicate field="c" operator="equal" value="w"/></Node><Node score="2"><True/>'
    with pytest.raises(ValueError, match="column 'c' must hold categories of the model, got 'w'; the model's pred"):
        score(stump(tmp_path, children + "</Node>"), [0.0], "w")


def test_invalid_categories_without_valid_ones_are_refused(tmp_path):
    path = stump(tmp_path)
    path.write_text(
        path.read_text().replace('<Value value="u"/><Value value="v"/>', '<Value value="w" property="invalid"/>')
    )
    with pytest.raises(UnsupportedModelError, match="field 'c' must list its valid values, got the invalid value 'w'"):
        read_model(path)


def test_classes_are_the_valid_values_of_the_target(tmp_path):
    path = stump(tmp_path)
    leaf = '<Node><True/><ScoreDistribution value="u" recordCount="3"/><ScoreDistribution value="v" recordCount="1"/>'
    text = path.read_text().replace('<Value value="v"/>', '<Value value="v"/><Value value="?" property="missing"/>')
    text = text.replace("regression", "classification").replace('name="c" />', 'name="c" usageType="target"/>')
    path.write_text(text[: text.index("<Node")] + leaf + "</Node></TreeModel></PMML>")
    assert read_model(path).schema.classes == ("u", "v")


def test_rows_without_a_prediction_are_refused(tmp_path):
    with pytest.raises(UnsupportedModelError, match="a row may have no prediction"):
        read_model(stump(tmp_path, '<Node score="1"><SimplePredicate field="a" operator="lessThan" value="0"/></Node>'))
    with pytest.raises(ValueError, match="column 'a' must have no missing values"):
        score(stump(tmp_path), [np.nan])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"options": 'missingValueStrategy="weightedConfidence"'}, "got weightedConfidence"),
        ({"mining": 'missingValueReplacement="0"'}, "values of field 'a' are replaced before the trees"),
        ({"children": PAIR.format("log(a)")}, r"uses 'log\(a\)', which is neither an active field nor a copy"),
        (
            {
                "children": '<Node score="1"><CompoundPredicate booleanOperator="and"><SimplePredicate field="a" '
                'operator="lessThan" value="0"/><SimplePredicate field="c" operator="equal" value="u"/>'
                '</CompoundPredicate></Node><Node score="2"><True/></Node>'
            },
            "combines several fields",
        ),
    ],
)
def test_what_is_refused(tmp_path, change, match):
    with pytest.raises(UnsupportedModelError, match=match):
        read_model(stump(tmp_path, **change))


@pytest.mark.parametrize("method", ["modelChain", "max", "median"])
def test_ensembles_that_are_no_sums_are_refused(kept, tmp_path, method):
    text = (
        (kept / "sum.pmml")
        .read_text(encoding="utf-8")
        .replace('multipleModelMethod="sum"', f'multipleModelMethod="{method}"')
    )
    (tmp_path / "model.pmml").write_text(text, encoding="utf-8")
    with pytest.raises(
        UnsupportedModelError, match=f"must be added up or averaged, got multipleModelMethod='{method}'"
    ):
        read_model(tmp_path / "model.pmml")


@pytest.mark.parametrize(("depth", "match"), [(40, None), (200, "too deep"), (400, "at most 300 levels")])
def test_deep_trees(tmp_path, depth, match):
    children = '<Node score="1"><True/></Node>'
    for k in range(depth):
        test = '<SimplePredicate field="a" operator="{}" value="{}"/>'
        children = (
            f'<Node score="{k}">{test.format("lessThan", k)}</Node>'
            f'<Node score="{k}">{test.format("greaterOrEqual", k)}{children}</Node>'
        )
    path = stump(tmp_path, children)
    if match is None:
        assert score(path, [-1.0, depth - 1.0]) == [depth - 1.0, 1.0]
    else:
        with pytest.raises(UnsupportedModelError, match=match):
            read_model(path)


def test_document_types_are_refused(tmp_path):
    path = tmp_path / "model.pmml"
    path.write_text('<!DOCTYPE PMML [<!ENTITY a "x"><!ENTITY b "&a;&a;">]><PMML>&b;</PMML>')
    with pytest.raises(UnsupportedModelError, match=r"must have no document type declaration \(DTD\)"):
        read_model(path)


def test_damaged_documents(tmp_path):
    path = stump(tmp_path)
    text = path.read_text(encoding="utf-8")
    path.write_text(text[:-20], encoding="utf-8")
    with pytest.raises(ModelFileError, match=r"model\.pmml: the file must be XML"):
        read_model(path)
    path.write_text(text.replace('value="0.1"', 'value="zero"'), encoding="utf-8")
    with pytest.raises(ModelFileError, match=r"must be a PMML document, got one that cannot be parsed \(ValueError"):
        read_model(path)


def test_words_in_quotes():
    assert words(' a "b c"  "say \\"x\\"" 1 ') == ["a", "b c", 'say "x"', "1"]


# Hostile documents


@pytest.mark.parametrize("value", ["1_000", "٣", "0x1", "", "NaN", "true"])
def test_thresholds_are_plain_numbers(tmp_path, value):
    path = stump(tmp_path, PAIR.format("a").replace('value="0.1"', f'value="{value}"'))
    with pytest.raises(ValueError, match=r"model\.pmml.*(not a number|got NaN)"):
        read_model(path)


@pytest.mark.parametrize("operator", ["lessThan", "greaterOrEqual"])
def test_splits_at_minus_infinity_are_refused_where_no_closed_bound_expresses_them(tmp_path, operator):
    pair = PAIR.format("a").replace('value="0.1"', 'value="-inf"')
    read_model(stump(tmp_path, pair))
    split = pair.replace("lessOrEqual", operator).replace("greaterThan", operator)
    with pytest.raises(UnsupportedModelError, match=r"model\.pmml.*must not ask what is below -inf"):
        read_model(stump(tmp_path, split))


@pytest.mark.parametrize("score", ["1_000", "true", "0x1"])
def test_scores_are_plain_numbers(tmp_path, score):
    with pytest.raises(ModelFileError, match="not a number"):
        read_model(stump(tmp_path, PAIR.format("a").replace('score="1"', f'score="{score}"')))


ENCODINGS = ["big5", "gbk", "gb2312", "euc-jp", "shift_jis", "utf-7", "utf-32", "hz", "iso2022_jp", "rot13", "idna"]


@pytest.mark.parametrize("encoding", [*ENCODINGS, "unicode_escape", "cp037", "zlib", "no-such-encoding", "johab"])
def test_other_encodings_are_refused(tmp_path, encoding):
    path = stump(tmp_path)
    path.write_bytes(f'<?xml version="1.0" encoding="{encoding}"?>'.encode() + path.read_bytes())
    with pytest.raises(UnsupportedModelError, match=r"model\.pmml: the document must be in UTF-8, UTF-16, ISO-8859 or"):
        read_model(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1", "windows-1252", "latin1"])
def test_encodings_of_one_byte_or_unicode_are_read(tmp_path, encoding):
    path = stump(tmp_path)
    text = path.read_text(encoding="utf-8").replace('name="a"', 'name="ä"').replace('field="a"', 'field="ä"')
    path.write_bytes(f'<?xml version="1.0" encoding="{encoding}"?>{text}'.encode(encoding))
    assert read_model(path).schema.names == ("ä", "c")


def test_large_sets_are_read_in_one_go(tmp_path):
    names = [f"k{k}" for k in range(20_000)]
    node = '<Node id="{0}" score="{0}"><SimpleSetPredicate field="{1}" booleanOperator="{2}"><Array>{3}</Array>'
    node += "</SimpleSetPredicate></Node>"
    halves = [" ".join(names[::2]), " ".join(names[1::2])]
    children = "".join(node.format(k + 1, "c", "isIn", half) for k, half in enumerate(halves))
    values = "".join(f'<Value value="{name}"/>' for name in names)
    found = read_model(path_with(tmp_path, children, values)).score(pd.DataFrame({"a": 0.0, "c": names}))
    assert found.ravel().tolist() == [1.0, 2.0] * 10_000


def path_with(tmp_path, children, values):
    """A stump whose category has other values."""
    path = stump(tmp_path, children, options='noTrueChildStrategy="returnLastPrediction"')
    path.write_text(path.read_text().replace('<Value value="u"/><Value value="v"/>', values))
    return path


def test_children_on_fields_in_turn_are_not_unfolded_without_end(tmp_path, monkeypatch):
    """Each pair of children leaves two intervals of `a` and one category of `c` open: 2^60 copies of the last ones."""
    node = '<Node score="1"><CompoundPredicate booleanOperator="and">{}</CompoundPredicate></Node>'
    between = '<SimplePredicate field="a" operator="greaterThan" value="{0}"/>'
    between += '<SimplePredicate field="a" operator="lessThan" value="{0}.5"/>'
    texts = '<SimplePredicate field="c" operator="equal" value="u"/>' * 2
    children = "".join(node.format(between.format(k)) + node.format(texts) for k in range(60))
    path = stump(tmp_path, children, options='noTrueChildStrategy="returnLastPrediction"')
    assert path.stat().st_size < 30_000
    monkeypatch.setattr("treeanova.readers.pmml._FREE_NODES", 2_000)  # a hundred thousand take seconds
    with pytest.raises(UnsupportedModelError, match="trees on one field at a time must have at most"):
        read_model(path)


def test_a_few_children_on_fields_in_turn_are_unfolded(tmp_path):
    one = '<Node score="{}"><SimplePredicate field="{}" operator="{}" value="{}"/></Node>'
    children = one.format(1, "a", "lessThan", -1) + one.format(2, "c", "equal", "u") + one.format(3, "a", "lessThan", 1)
    path = stump(tmp_path, children, options='noTrueChildStrategy="returnLastPrediction"')
    assert score(path, [-2, 0, 2], "u") == [1, 2, 2]
    assert score(path, [-2, 0, 2], "v") == [1, 3, 0]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('score="1"', 'scare="1"', "Node must have what PMML knows, got 'scare'"),
        ("</Node></Node>", "</Node><Nude/></Node>", "Node must have what PMML knows, got 'Nude'"),
        ("<TreeModel", '<TreeModel missingValueStratagem="x"', "TreeModel must have what PMML knows"),
        ("<TreeModel", '<TreeModel noTrueChildStrategy="returnLast"', "noTrueChildStrategy must be that of PMML"),
        (
            'functionName="regression"',
            'functionName="regressions"',
            "functionName must be regression or classification",
        ),
        ('<MiningField name="c"', '<MiningField name="c" invalidValueTreatment="asMister"', "refuse others or take"),
        ('<Value value="u"/>', "<Value/>", "field 'c' must list its values"),
        ('<Node id="1" score="1">', '<Node id="1" score="1"><True/>', "must have one predicate that is known, got 2"),
        ('name="c" optype', 'name="a" optype', "must have names of their own"),
    ],
)
def test_words_that_pmml_does_not_know(tmp_path, old, new, message):
    path = stump(tmp_path)
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=message):
        read_model(path)


DERIVED = '<DerivedField name="{}" optype="continuous" dataType="{}">{}</DerivedField>'
COPY, LOG = '<FieldRef field="a"/>', '<Apply function="ln"><FieldRef field="a"/></Apply>'


@pytest.mark.parametrize(
    ("fields", "is_refused"),
    [
        ([("a", "double", LOG)], True),
        ([("c", "double", COPY)], True),
        ([("d", "double", COPY), ("d", "float", COPY)], True),
        ([("d", "double", COPY), ("d", "double", LOG)], True),
        ([("d", "double", COPY), ("d", "double", COPY), ("e", "double", LOG)], False),
    ],
)
def test_derived_fields_have_names_of_their_own(tmp_path, fields, is_refused):
    inner = "".join(DERIVED.format(*field) for field in fields)
    path = stump(tmp_path, derived=f"<TransformationDictionary>{inner}</TransformationDictionary>")
    if is_refused:
        with pytest.raises(UnsupportedModelError, match="derived fields must have names of their own, got"):
            read_model(path)
    else:
        assert score(path, [0.0, 1.0]) == [1, 2]


def test_leaves_without_a_score(tmp_path):
    with pytest.raises(UnsupportedModelError, match="each leaf must have a score, got a Node without"):
        read_model(stump(tmp_path, PAIR.format("a").replace('score="1"', "")))


def test_default_children_have_ids_of_their_own(tmp_path):
    path = stump(tmp_path, PAIR.format("a").replace('id="2"', 'id="1"'), options='missingValueStrategy="defaultChild"')
    path.write_text(path.read_text().replace('id="0"', 'id="0" defaultChild="1"', 1))
    with pytest.raises(UnsupportedModelError, match="a default child must have an id of its own, got '1' twice"):
        read_model(path)


def test_scores_of_single_precision(tmp_path):
    children = PAIR.format("a").replace('score="1"', 'score="0.1"')
    assert score(stump(tmp_path, children, options='x-mathContext="float"'), [0.0]) == [float(np.float32(0.1))]
    assert score(stump(tmp_path, children, options='x-mathContext="double"'), [0.0]) == [0.1]
    with pytest.raises(UnsupportedModelError, match="x-mathContext must be double, or float"):
        read_model(stump(tmp_path, children, options='x-mathContext="decimal"'))


def test_arrays_have_as_many_entries_as_they_say(tmp_path):
    node = '<Node score="{}"><SimpleSetPredicate field="c" booleanOperator="{}"><Array n="{}">u</Array>'
    node += "</SimpleSetPredicate></Node>"
    assert score(stump(tmp_path, node.format(1, "isIn", 1) + node.format(2, "isNotIn", 1)), [0.0], "v") == [2]
    with pytest.raises(ModelFileError, match="an Array must have 2 entries, got 1"):
        read_model(stump(tmp_path, node.format(1, "isIn", 1) + node.format(2, "isNotIn", 2)))
