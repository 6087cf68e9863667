"""What is read and what is refused, in words: error messages, README.md and docs/models.md take it from here.

``python tools/write_catalogue.py`` writes the pages; tests hold that every reader has an entry here and that every
refusal listed is raised.
"""

from __future__ import annotations

import dataclasses

from treeanova.readers.libraries import LIBRARIES, LibraryReader


@dataclasses.dataclass(frozen=True)
class Entry:
    """What is read of a library; `module` is that of its reader in treeanova.readers, `in_short` is for README.md."""

    name: str
    module: str
    models: str
    in_short: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """Suffixes of files, or "folder"."""
        readers = [reader for reader in LIBRARIES if reader.module == self.module]
        return tuple(kind for reader in readers for kind in _files(reader))


def _files(reader: LibraryReader) -> tuple[str, ...]:
    json = (".json",) if reader.names_in_json else ()
    return (*json, *reader.suffixes, *(("folder",) if reader.names_in_folder else ()))


@dataclasses.dataclass(frozen=True)
class Refusal:
    """What is refused of a library, and why."""

    library: str
    what: str
    why: str


READ = (
    Entry("XGBoost", "xgboost", "`Booster`, `XGBRegressor`, `XGBClassifier` and others"),
    Entry("LightGBM", "lightgbm", "`Booster`, `LGBMRegressor`, `LGBMClassifier` and others"),
    Entry("CatBoost", "catboost", "`CatBoost`, `CatBoostRegressor`, `CatBoostClassifier`"),
    Entry(
        "scikit-learn",
        "sklearn",
        "trees, random forests, extra trees, gradient boosting, histogram gradient boosting, AdaBoost classifiers, "
        "bagging of these",
        "trees, forests, extra trees, both kinds of gradient boosting",
    ),
    Entry(
        "wrappers of scikit-learn",
        "wrappers",
        "Pipelines that change columns one by one; searches, soft votes, bags, stacks with a linear last step, "
        "transformed targets, calibrated classifiers, one model per output or class, around models of any library",
        "Pipelines that change columns one by one, searches, votes, stacks, bags and others",
    ),
    Entry("InterpretML", "ebm", "`ExplainableBoostingRegressor`, `ExplainableBoostingClassifier`"),
    Entry("quantile-forest", "quantile_forest", "forests that predict the mean of one row per leaf"),
    Entry("ONNX", "onnx", "`TreeEnsembleRegressor`, `TreeEnsembleClassifier`, `TreeEnsemble`"),
    Entry("Yggdrasil Decision Forests", "ydf", "boosted trees, random forests, CART"),
    Entry("treelite", "treelite", "`Model`, checkpoints of version 4"),
    Entry(
        "Spark ML",
        "spark",
        "trees, random forests and boosted trees, also in a PipelineModel with StringIndexer, VectorAssembler and "
        "VectorIndexer",
    ),
    Entry("PMML", "pmml", "`TreeModel`, and sums, means and votes of these in `MiningModel`"),
)
REFUSED = (
    Refusal("XGBoost", "`gblinear`", "it has no trees"),
    Refusal("LightGBM", "`linear_tree`", "its leaves are linear functions"),
    Refusal("CatBoost", "text and embedding features", "they are not single values"),
    Refusal("scikit-learn", "`AdaBoostRegressor`", "it predicts a weighted median of trees"),
    Refusal("scikit-learn", "`IsolationForest`", "its score is a power of the mean path length"),
    Refusal("wrappers of scikit-learn", "hard votes", "they count labels"),
    Refusal(
        "wrappers of scikit-learn", "votes and bags of boosted classifiers", "a mean of logistic functions is no sum"
    ),
    Refusal("wrappers of scikit-learn", "Pipelines that mix columns (PCA)", "splits are on several columns"),
    Refusal("quantile-forest", "quantiles", "they are those of rows pooled over trees"),
    Refusal("ONNX", "minima and maxima of trees", "they are no sums"),
    Refusal("Yggdrasil Decision Forests", "oblique conditions", "splits are on several columns"),
    Refusal("treelite", "checkpoints of version 3", "the format is another one"),
    Refusal("Spark ML", "other stages in a PipelineModel", "they may mix columns"),
    Refusal("PMML", "`modelChain` and other ensembles", "they are no sums"),
    Refusal("PMML", "documents with a DTD", "entities could be attacks"),
)


def in_words() -> str:
    """What is read, in one sentence of an error message."""
    names = ", ".join(entry.name for entry in READ)
    files = ", ".join(f"{'/'.join(entry.files)} ({entry.name})" for entry in READ if entry.files)
    return f"models of {names}, and files {files}"


def table_of_models() -> str:
    """The table of docs/models.md."""
    rows = [f"| {entry.name} | {entry.models} | {_quoted(entry.files) or 'none'} |" for entry in READ]
    return "\n".join(["| library | in memory | files |", "|---|---|---|", *rows])


def table_of_refusals() -> str:
    """The table of what is refused in docs/models.md."""
    rows = [f"| {refusal.library} | {refusal.what} | {refusal.why} |" for refusal in REFUSED]
    return "\n".join(["| library | refused | because |", "|---|---|---|", *rows])


def table_of_readme() -> str:
    """The table of README.md."""
    models = ", ".join(f"{entry.name} ({entry.in_short})" if entry.in_short else entry.name for entry in READ)
    files = ", ".join(f"{_quoted(entry.files)} of {entry.name}" for entry in READ if entry.files)
    pickles = "pickles, `.joblib` and `.skops` with `trusted=True`"
    rows = {
        "models": models,
        "files": f"{files}; {pickles}",
        "your own model": "`treeanova.register_reader`",
        "data": "numpy, pandas, polars, pyarrow, scipy.sparse; in batches Parquet files, DuckDB, Arrow streams, Dask, "
        "Spark; on the command line CSV, Parquet, Feather and JSON lines",
    }
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows.items())])


def _quoted(files: tuple[str, ...]) -> str:
    return ", ".join("folders" if kind == "folder" else f"`{kind}`" for kind in files)
