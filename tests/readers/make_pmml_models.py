"""Writes models/pmml.zip: PMML documents, rows and what PMML4S predicts: python -m tests.readers.make_pmml_models.

PMML4S (package pypmml) needs Java. The documents are drawn at random: all strategies for missing values, children that
are tried one after the other, sets, combined predicates, and ensembles. Rows are on, above and below every threshold.
"""

from __future__ import annotations

import json
import math
import pathlib
import random
import tempfile
import zipfile

FOLDER = pathlib.Path(__file__).parent / "models"
THRESHOLDS = ["-0.5", "-0.1", "0.1", "0.3", "1.7"]
TEXTS = ["red", "light blue", "green"]
CLASSES = ["no", "perhaps", "yes"]


def simple(field, operator, value):
    return f'<SimplePredicate field="{field}" operator="{operator}" value="{value}"/>'


def compound(operator, *parts):
    return f'<CompoundPredicate booleanOperator="{operator}">{"".join(parts)}</CompoundPredicate>'


def in_set(operator, values):
    text = " ".join(f'"{value}"' for value in values)
    array = f'<Array type="string" n="{len(values)}">{text}</Array>'.replace('"red"', "red", 1) if text else ""
    return f'<SimpleSetPredicate field="c" booleanOperator="{operator}">{array}</SimpleSetPredicate>'


def pairs(rng):
    """Predicates of two children that leave no row without one, if nothing is missing."""
    field, value, some = rng.choice("ab"), rng.choice(THRESHOLDS), rng.sample(TEXTS, 2)
    between = compound("and", simple(field, "greaterThan", "-0.1"), simple(field, "lessOrEqual", "0.3"))
    outside = compound("or", simple(field, "lessOrEqual", "-0.1"), simple(field, "greaterThan", "0.3"))
    three = [
        simple(field, "lessThan", "-0.1"),
        simple(field, "lessThan", "0.3"),
        simple(field, "greaterOrEqual", "0.3"),
    ]
    kinds = [
        [simple(field, "lessThan", value), simple(field, "greaterOrEqual", value)],
        [simple(field, "greaterThan", value), simple(field, "lessOrEqual", value)],
        [simple(field, "equal", value), simple(field, "notEqual", value)],
        [between, outside],
        [simple("c", "equal", "red"), simple("c", "notEqual", "red")],
        [in_set("isIn", some), in_set("isNotIn", some)],
        three,
    ]
    return rng.choice(kinds)


def node(rng, depth, predicate, number, *, classes):
    """A node with its subtree."""
    name = f"n{next(number)}"
    score, shares = f'score="{rng.uniform(-2, 2):.4f}"', ""
    if classes:
        counts = [rng.randrange(1, 9) for _ in CLASSES]
        counts[rng.randrange(3)] += 10
        best = CLASSES[counts.index(max(counts))]
        score = f'score="{best}"'
        entries = zip(CLASSES, counts, strict=True)
        shares = "".join(f'<ScoreDistribution value="{label}" recordCount="{n}"/>' for label, n in entries)
    if not depth:
        return f'<Node id="{name}" {score}>{predicate}{shares}</Node>', name
    built = [node(rng, depth - 1, part, number, classes=classes) for part in pairs(rng)]
    default = rng.choice(built)[1]
    inside = "".join(text for text, _ in built)
    return f'<Node id="{name}" {score} defaultChild="{default}">{predicate}{shares}{inside}</Node>', name


def schema(*, classes):
    target = '<MiningField name="y" usageType="target"/>' if classes is not None else ""
    fields = "".join(f'<MiningField name="{name}" invalidValueTreatment="asMissing"/>' for name in "abc")
    return f"<MiningSchema>{fields}{target}</MiningSchema>"


def tree(rng, strategy, *, classes=False, stays=True):
    function = "classification" if classes else "regression"
    stay = 'noTrueChildStrategy="returnLastPrediction"' if stays else ""
    root, _ = node(rng, 3, "<True/>", iter(range(1000)), classes=classes)
    return (
        f'<TreeModel functionName="{function}" missingValueStrategy="{strategy}" splitCharacteristic="multiSplit" '
        f"{stay}>{schema(classes=classes)}{root}</TreeModel>"
    )


def ensemble(rng, method, strategy, *, classes=False, targets=""):
    segments = "".join(
        f'<Segment id="{k}" weight="{weight}"><True/>{tree(rng, strategy, classes=classes)}</Segment>'
        for k, weight in enumerate([1, 2.5, 0.5])
    )
    function = "classification" if classes else "regression"
    return (
        f'<MiningModel functionName="{function}">{schema(classes=classes)}{targets}'
        f'<Segmentation multipleModelMethod="{method}">{segments}</Segmentation></MiningModel>'
    )


def document(model, *, classes=False, listed=TEXTS):
    texts = "".join(f'<Value value="{text}"/>' for text in listed)
    labels = "".join(f'<Value value="{text}"/>' for text in CLASSES)
    target = (
        f'<DataField name="y" optype="categorical" dataType="string">{labels}</DataField>'
        if classes
        else '<DataField name="y" optype="continuous" dataType="double"/>'
    )
    return (
        '<PMML version="4.4" xmlns="http://www.dmg.org/PMML-4_4"><Header/><DataDictionary>'
        '<DataField name="a" optype="continuous" dataType="double"/>'
        '<DataField name="b" optype="continuous" dataType="double"/>'
        f'<DataField name="c" optype="categorical" dataType="string">{texts}</DataField>{target}'
        f"</DataDictionary>{model}</PMML>"
    )


def documents():
    targets = '<Targets><Target field="y" rescaleFactor="0.5" rescaleConstant="3"/></Targets>'
    rng = random.Random(0)
    for strategy in ("none", "defaultChild", "lastPrediction"):
        for k in range(3):
            yield f"{strategy}-{k}", document(tree(rng, strategy)), True
    yield "unlisted", document(tree(rng, "none"), listed=()), True
    yield "null", document(tree(rng, "nullPrediction")), False
    yield "strict", document(tree(rng, "none", stays=False)), False
    for method in ("sum", "average", "weightedAverage"):
        yield method, document(ensemble(rng, method, "defaultChild", targets=targets)), True
    yield "classes", document(tree(rng, "defaultChild", classes=True), classes=True), True
    yield "class-average", document(ensemble(rng, "average", "none", classes=True), classes=True), True
    yield "votes", document(ensemble(rng, "majorityVote", "defaultChild", classes=True), classes=True), True


def rows(*, missing):
    rng = random.Random(1)
    edges = [float(text) for text in THRESHOLDS]
    numbers = [near for v in edges for near in (v, math.nextafter(v, math.inf), math.nextafter(v, -math.inf))]
    numbers += [0.0, 5.0, -5.0] + ([None] * 3 if missing else [])
    texts = [*TEXTS, *(["unseen", None] if missing else [])]
    return [[rng.choice(numbers), rng.choice(numbers), rng.choice(texts)] for _ in range(150)]


def predicted(model, table):
    labels = [f"probability_{label}" for label in CLASSES]
    found = []
    for row in table:
        given = {name: value for name, value in zip("abc", row, strict=True) if value is not None}
        answer = model.predict(given)
        name = next((name for name in ("predicted_y", "y") if name in answer), None)
        found.append([answer[label] for label in labels] if labels[0] in answer else answer[name])
    return found


def main() -> None:
    from pypmml import Model

    with (
        zipfile.ZipFile(FOLDER / "pmml.zip", "w", zipfile.ZIP_DEFLATED) as archive,
        tempfile.TemporaryDirectory() as tmp,
    ):
        for name, text, missing in documents():
            path = pathlib.Path(tmp) / f"{name}.pmml"
            path.write_text(text, encoding="utf-8")
            table = rows(missing=missing)
            content = {"rows": table, "predicted": predicted(Model.load(str(path)), table)}
            archive.write(path, path.name)
            archive.writestr(f"{name}.json", json.dumps(content))
    Model.close()


if __name__ == "__main__":
    main()
