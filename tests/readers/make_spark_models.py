"""Writes models/spark-VERSION.zip with the Spark that is installed: python -m tests.readers.make_spark_models.

Spark needs Java and takes minutes, so its models are kept. For each there is a folder as Spark saves it, and in
expected.json rows (on, above and below every threshold, missing, of unseen categories) with what Spark predicts for
them: the prediction of regressors, the probabilities of classifiers.
"""

from __future__ import annotations

import json
import math
import pathlib
import random
import tempfile
import zipfile

FOLDER = pathlib.Path(__file__).parent / "models"
NAMES = ["a", "b", "c", "k"]
TEXTS = ["red", "green", "blue", ""]


def main() -> None:
    from pyspark.sql import SparkSession

    options = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.default.parallelism": "1"}
    builder = SparkSession.builder.master("local[1]")
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder:
        expected = {name: written(spark, name, pipeline, folder) for name, pipeline in pipelines().items()}
        expected["bare"] = bare(spark, folder)
        pack(pathlib.Path(folder), expected, spark.version)
    spark.stop()


def pipelines():
    from pyspark.ml import Pipeline, classification, feature, regression

    text = feature.StringIndexer(inputCol="c", outputCol="ci", handleInvalid="keep")
    target = feature.StringIndexer(inputCol="name", outputCol="named", stringOrderType="alphabetAsc")
    vector = feature.VectorAssembler(inputCols=["a", "b", "ci", "k"], outputCol="features", handleInvalid="keep")
    strict = feature.VectorAssembler(inputCols=["a", "b", "ci", "k"], outputCol="features")
    indexed, few = (
        feature.VectorIndexer(inputCol="features", outputCol="indexed", maxCategories=n, handleInvalid="keep")
        for n in (6, 2)
    )
    both = feature.StringIndexer(inputCols=["c", "name"], outputCols=["ci", "named"], stringOrderType="alphabetAsc")
    scaled = feature.StandardScaler(inputCol="features", outputCol="indexed")
    number = {"featuresCol": "indexed", "labelCol": "y", "maxDepth": 3, "seed": 0}
    classes = {"labelCol": "named", "maxDepth": 3, "seed": 0}
    stages = {
        "boosted": [text, vector, indexed, regression.GBTRegressor(maxIter=3, **number)],
        "positions": [text, vector, few, regression.GBTRegressor(maxIter=2, **number)],
        "forest": [text, vector, indexed, regression.RandomForestRegressor(numTrees=3, **number)],
        "tree": [text, vector, indexed, regression.DecisionTreeRegressor(**number)],
        "classes": [text, target, vector, classification.RandomForestClassifier(numTrees=3, **classes)],
        "two": [both, strict, classification.GBTClassifier(maxIter=3, **{**classes, "labelCol": "label"})],
        "scaled": [text, vector, scaled, regression.DecisionTreeRegressor(**number)],
    }
    return {name: Pipeline(stages=parts) for name, parts in stages.items()}


def table(spark, n_rows=200):
    random.seed(0)
    rows = []
    for _ in range(n_rows):
        a, b = round(random.gauss(0, 1), 1), random.gauss(0, 1)
        c, k = random.choice(TEXTS), float(random.choice([0, 1, 2, 5]))
        y = a * b + 2 * (c == "red") + (k == 2)
        name = "low" if y < 0 else "middle" if y < 1.5 else "high"
        rows.append((a, b, c, k, y, float(y > 1), name))
    return spark.createDataFrame(rows, [*NAMES, "y", "label", "name"])


def thresholds(spark, path):
    """Thresholds of the numbers a and b, as Spark has saved them."""
    found = {0: set(), 1: set()}
    rows = spark.read.parquet(str(path)).collect()
    for row in rows:
        split = (row["nodeData"] if "nodeData" in row.asDict() else row)["split"]
        if split["featureIndex"] in found and split["numCategories"] < 0:
            found[split["featureIndex"]].update(split["leftCategoriesOrThreshold"])
    return [sorted(values) for values in found.values()]


def edge_rows(bounds, *, strict):
    random.seed(1)
    pools = []
    for values in bounds:
        near = [other for v in values for other in (v, math.nextafter(v, math.inf), math.nextafter(v, -math.inf))]
        pools.append(near + [0.0, -0.0, 1e300, -1e300] + ([] if strict else [math.nan, math.inf, -math.inf]))
    texts = TEXTS if strict else [*TEXTS, "unseen", None]
    numbers = [0.0, 1.0, 2.0, 5.0] if strict else [0.0, -0.0, 1.0, 2.0, 5.0, 3.0, 0.5, -1.0, math.nan]
    return [
        (random.choice(pools[0]), random.choice(pools[1]), random.choice(texts), random.choice(numbers))
        for _ in range(300)
    ]


def written(spark, name, pipeline, folder):
    data = table(spark)
    model = pipeline.fit(data)
    path = pathlib.Path(folder) / name
    model.write().save(path.as_uri())
    last = next(
        part for part in sorted((path / "stages").iterdir()) if part.name.startswith(str(len(model.stages) - 1))
    )
    rows = edge_rows(thresholds(spark, last / "data"), strict=name == "two")
    from pyspark.sql.types import DoubleType, StringType, StructField, StructType

    kinds = [DoubleType(), DoubleType(), StringType(), DoubleType()]
    schema = StructType([StructField(column, kind) for column, kind in zip(NAMES, kinds, strict=True)])
    return {"rows": rows, "predicted": predictions(model, spark.createDataFrame(rows, schema))}


def predictions(model, data):
    out = model.transform(data)
    if "probability" in out.columns:
        return [row["probability"].toArray().tolist() for row in out.select("probability").collect()]
    return [row["prediction"] for row in out.select("prediction").collect()]


def bare(spark, folder):
    """A classification tree without a pipeline, on vectors."""
    from pyspark.ml.classification import DecisionTreeClassifier
    from pyspark.ml.feature import VectorAssembler

    names = ["a", "b", "k"]
    vectors = VectorAssembler(inputCols=names, outputCol="features", handleInvalid="keep")
    model = DecisionTreeClassifier(maxDepth=3, seed=0).fit(vectors.transform(table(spark)))
    path = pathlib.Path(folder) / "bare"
    model.write().save(path.as_uri())
    rows = [(a, b, k) for a, b, _, k in edge_rows(thresholds(spark, path / "data"), strict=False)]
    data = vectors.transform(spark.createDataFrame(rows, ", ".join(f"{name} double" for name in names)))
    return {"rows": rows, "predicted": predictions(model, data)}


def pack(folder, expected, version):
    with zipfile.ZipFile(FOLDER / f"spark-{version}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("expected.json", json.dumps(expected))
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix != ".crc":
                archive.write(path, path.relative_to(folder))


if __name__ == "__main__":
    main()
