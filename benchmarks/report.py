"""Size, nodes and load time of the report for 12 and for 100 features, in headless Chromium."""

from __future__ import annotations

import pathlib
import shutil
import statistics
import tempfile
from typing import Any

import numpy as np

from benchmarks.timing import best_of, print_table
from treeanova._decompose import decompose
from treeanova.decomposition.decomposition import Decomposition
from treeanova.report import write_report

CASES = {"12 features, 66 pairs": (12, 66), "100 features, 100 pairs": (100, 100)}
_LOADED = "performance.getEntriesByType('navigation')[0].loadEventEnd"


def boosted(n_features: int, n_pairs: int, n_rows: int = 4_000) -> Decomposition:
    """The decomposition of a boosted model of depth 2 of correlated features, with about `n_pairs` pairs."""
    from lightgbm import LGBMRegressor  # noqa: PLC0415  a benchmark's own library

    rng = np.random.default_rng(0)
    X = 0.8 * rng.normal(size=(n_rows, n_features)) + 0.6 * rng.normal(size=(n_rows, 1))
    pairs = [(i, j) for i in range(n_features) for j in range(i)]
    chosen = [pairs[k] for k in rng.choice(len(pairs), size=n_pairs, replace=False)]
    y = sum(X[:, i] * X[:, j] for i, j in chosen) + X @ rng.normal(size=n_features)
    model = LGBMRegressor(
        n_estimators=1200, max_depth=2, num_leaves=4, learning_rate=0.2, verbose=-1, n_jobs=1,
        interaction_constraints=[[int(i), int(j)] for i, j in chosen],
    )  # fmt: skip
    return decompose(model.fit(X, y), X, feature_names=[f"feature {i}" for i in range(n_features)])


def _loaded(browser: Any, path: pathlib.Path) -> tuple[float, float, int]:
    """Milliseconds to the load event and to the picture, and the number of nodes."""
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(path.as_uri())
    while not page.evaluate("document.body.dataset.drawn"):
        page.wait_for_timeout(5)
    drawn = page.evaluate("performance.now()")
    found = page.evaluate(_LOADED), drawn, page.evaluate("document.querySelectorAll('*').length")
    page.close()
    return found


def run(*, full: bool = False) -> None:
    """Print the table: seconds to write, size, nodes, and medians of five loads (fifteen when full)."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  a benchmark's own library

    rows = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        for name, (n_features, n_pairs) in CASES.items():
            fx = boosted(n_features, n_pairs)
            target = pathlib.Path(folder) / "report.html"
            seconds, _ = best_of(lambda fx=fx, target=target: write_report(fx, target), most=3)  # type: ignore[misc]
            loads = [_loaded(browser, target) for _ in range(15 if full else 5)]
            load, picture = (statistics.median(one[i] for one in loads) for i in (0, 1))
            size = f"{target.stat().st_size / 1e6:.2f} MB"
            rows.append([name, f"{seconds:.2f} s", size, str(loads[0][2]), f"{load:.0f} ms", f"{picture:.0f} ms"])
        browser.close()
    print_table(["report", "written in", "size", "nodes", "load event", "first picture"], rows)
