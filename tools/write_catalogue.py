"""Writes what is read and refused into README.md and docs/models.md, between comments: python tools/write_catalogue.py.

A comment ``<!-- catalogue: NAME -->`` begins a part that function NAME of this file writes, and
``<!-- catalogue: end -->`` ends it. Tests hold that every reader has an entry and that every refusal listed is raised.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re

from treeanova.readers import LIBRARIES

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/models.md")
_PART = re.compile(r"<!-- catalogue: (\w+) -->\n.*?<!-- catalogue: end -->", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Entry:
    """What is read of a library, by its title in `LIBRARIES`; `in_short` is for README.md."""

    name: str
    models: str
    in_short: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """Suffixes of files, or "folder"."""
        return tuple(kind for reader in LIBRARIES if reader.title == self.name for kind in reader.files)


@dataclasses.dataclass(frozen=True)
class Refusal:
    """What is refused of a library, and why."""

    library: str
    what: str
    why: str


READ = (
    Entry("XGBoost", "`Booster`, `XGBRegressor`, `XGBClassifier` and others"),
    Entry("LightGBM", "`Booster`, `LGBMRegressor`, `LGBMClassifier` and others"),
    Entry("CatBoost", "`CatBoost`, `CatBoostRegressor`, `CatBoostClassifier`"),
    Entry(
        "scikit-learn",
        "trees, random forests, extra trees, gradient boosting, histogram gradient boosting, AdaBoost classifiers, "
        "bagging of these",
        "trees, forests, extra trees, both kinds of gradient boosting",
    ),
    Entry(
        "wrappers of scikit-learn",
        "Pipelines whose transformers act on one column at a time; searches, soft votes, bagging, stacking with a "
        "linear final estimator, transformed targets, calibrated classifiers, one model per output or class; around "
        "models of any library",
        "Pipelines whose transformers act on one column at a time, searches, votes, stacking, bagging and others",
    ),
    Entry("InterpretML", "`ExplainableBoostingRegressor`, `ExplainableBoostingClassifier`"),
    Entry("quantile-forest", 'forests with `max_samples_leaf=1` and `default_quantiles="mean"`'),
    Entry("ONNX", "`TreeEnsembleRegressor`, `TreeEnsembleClassifier`, `TreeEnsemble`"),
    Entry("Yggdrasil Decision Forests", "boosted trees, random forests, CART"),
    Entry("treelite", "`Model`, checkpoints of version 4"),
    Entry(
        "Spark ML",
        "trees, random forests and boosted trees, alone or in a PipelineModel with StringIndexer, VectorAssembler and "
        "VectorIndexer",
    ),
    Entry("PMML", "`TreeModel`, and `MiningModel` for sums, means and votes of trees"),
)

REFUSED = (
    Refusal("XGBoost", "`gblinear`", "it has no trees"),
    Refusal("LightGBM", "`linear_tree`", "its leaves are linear functions"),
    Refusal("CatBoost", "text and embedding features", "they are not single values"),
    Refusal("scikit-learn", "`AdaBoostRegressor`", "it predicts a weighted median of trees"),
    Refusal("scikit-learn", "`IsolationForest`", "its score is a power of the mean path length"),
    Refusal("wrappers of scikit-learn", "hard votes", "they count labels"),
    Refusal(
        "wrappers of scikit-learn",
        "votes and bags of boosted classifiers",
        "an average of probabilities is not additive in log-odds",
    ),
    Refusal(
        "wrappers of scikit-learn", "Pipelines that mix columns (PCA)", "one split then depends on several columns"
    ),
    Refusal("quantile-forest", "quantiles", "they come from rows pooled over trees, not from a sum"),
    Refusal("ONNX", "minima and maxima of trees", "a minimum or maximum is not a sum"),
    Refusal("Yggdrasil Decision Forests", "oblique conditions", "one split depends on several columns"),
    Refusal("treelite", "checkpoints of version 3", "the format is different"),
    Refusal("Spark ML", "other stages in a PipelineModel", "such stages may mix columns"),
    Refusal("PMML", "`modelChain` and other ensembles", "they are not sums of trees"),
    Refusal("PMML", "documents with a DTD", "external entities are a security risk"),
)


def table_of_models() -> str:
    """Return the table of docs/models.md."""
    rows = [f"| {entry.name} | {entry.models} | {_quoted(entry.files) or 'none'} |" for entry in READ]
    return "\n".join(["| library | in memory | files |", "|---|---|---|", *rows])


def table_of_refusals() -> str:
    """Return the table of what is refused in docs/models.md."""
    rows = [f"| {refusal.library} | {refusal.what} | {refusal.why} |" for refusal in REFUSED]
    return "\n".join(["| library | refused | because |", "|---|---|---|", *rows])


def table_of_readme() -> str:
    """Return the table of README.md."""
    models = ", ".join(f"{entry.name} ({entry.in_short})" if entry.in_short else entry.name for entry in READ)
    files = ", ".join(f"{entry.name} ({_quoted(entry.files)})" for entry in READ if entry.files)
    rows = {
        "models": models,
        "files": f"{files}; pickles, `.joblib` and `.skops` with `trusted=True`",
        "your own model": "`treeanova.register_reader`",
        "data": "numpy, pandas, polars, pyarrow, scipy.sparse; in batches: Parquet files, DuckDB, Arrow streams, Dask, "
        "Spark; on the command line: CSV, TSV, Parquet, Feather and JSON lines",
    }
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows.items())])


def _quoted(files: tuple[str, ...]) -> str:
    return ", ".join("folders" if kind == "folder" else f"`{kind}`" for kind in files)


def written(text: str) -> str:
    """Return a page with its parts written anew."""
    tables = {table.__name__: table for table in (table_of_models, table_of_refusals, table_of_readme)}
    return _PART.sub(lambda part: f"<!-- catalogue: {part[1]} -->\n{tables[part[1]]()}\n<!-- catalogue: end -->", text)


def main() -> None:
    """Write all pages."""
    for name in PAGES:
        path = ROOT / name
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
