"""The page: data, styles and scripts in one HTML file, written whole or not at all."""

from __future__ import annotations

import contextlib
import functools
import html
import importlib.metadata
import json
import os
import pathlib
import re
import sys
import webbrowser
from collections.abc import Mapping, Sequence
from typing import Any, overload

from treeanova.core.files import PAGE, check_folder, check_suffix, write_text
from treeanova.core.progress import Progress, one_step, quiet, reporting
from treeanova.decomposition.bags import Bag
from treeanova.decomposition.change import Change
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.gap import Gap
from treeanova.decomposition.impact import Impact
from treeanova.decomposition.validation import Validation
from treeanova.export.programs import evaluation_script
from treeanova.report.panel import MOST_BYTES, too_large
from treeanova.report.payload import checked_errors, checked_impact, checked_validation, payload
from treeanova.report.static import asset, colours, digest

_SNIPPET = "window.vegaEmbed = vegaEmbed;"
_HEAD = "// SHA-256 of what follows: "


@functools.cache
def vega() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, cached because making it takes a second."""
    try:
        import vl_convert  # noqa: PLC0415  only reports need it
    except ImportError as error:
        raise ImportError(
            "write_report() needs vl-convert-python, which is not installed; pip install vl-convert-python."
        ) from error
    path = cache_folder() / f"vega-{importlib.metadata.version('vl-convert-python')}.js"
    cached = _cached_script(path)
    if cached is not None:
        return cached
    closed = re.sub(r"</(script)", r"<\\/\1", vl_convert.javascript_bundle(_SNIPPET), flags=re.IGNORECASE)
    script = f"(() => {{{closed}\n}})();"  # so that its many short names stay private
    with contextlib.suppress(OSError):  # a page can be made without a cache
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, f"{_HEAD}{digest(script)}\n{script}")
    return script


def cache_folder() -> pathlib.Path:
    """Return TREEANOVA_CACHE, or a folder in the user's cache."""
    home = pathlib.Path.home()
    folders = {"win32": home / "AppData" / "Local", "darwin": home / "Library" / "Caches"}
    users = os.environ.get("XDG_CACHE_HOME") or folders.get(sys.platform, home / ".cache")
    return pathlib.Path(os.environ.get("TREEANOVA_CACHE") or pathlib.Path(users) / "treeanova")


def _cached_script(path: pathlib.Path) -> str | None:
    """Return a script from the cache; None if there is none, or its digest differs."""
    try:
        head, _, script = path.read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeError):
        return None
    return script if head == _HEAD + digest(script) else None


_SCRIPTS = ("data.js", "charts.js", "shell.js", "chosen.js", "sections.js", "panel.js", "start.js")
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
DENSITIES = ("uniform", "empirical", "auto")


@overload
def write_report(  # noqa: D418
    fx: Decomposition | Change | Gap,
    path: None = None,
    *,
    title: str | None = None,
    densities: Sequence[str] | Mapping[str, Any] | None = None,
    rows: Any = None,
    errors: Mapping[Any, Any] | Bag | None = None,
    validation: Validation | None = None,
    impact: Impact | None = None,
    max_terms: int = 300,
    open_browser: bool = False,
    progress: bool | Progress | None = None,
) -> str:
    """The page as text, where no path is given."""


@overload
def write_report(  # noqa: D418
    fx: Decomposition | Change | Gap,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    densities: Sequence[str] | Mapping[str, Any] | None = None,
    rows: Any = None,
    errors: Mapping[Any, Any] | Bag | None = None,
    validation: Validation | None = None,
    impact: Impact | None = None,
    max_terms: int = 300,
    open_browser: bool = False,
    progress: bool | Progress | None = None,
) -> pathlib.Path:
    """The path that the page was written to."""


def write_report(
    fx: Decomposition | Change | Gap,
    path: str | os.PathLike[str] | None = None,
    *,
    title: str | None = None,
    densities: Sequence[str] | Mapping[str, Any] | None = None,
    rows: Any = None,
    errors: Mapping[Any, Any] | Bag | None = None,
    validation: Validation | None = None,
    impact: Impact | None = None,
    max_terms: int = 300,
    open_browser: bool = False,
    progress: bool | Progress | None = None,
) -> pathlib.Path | str:
    """Write a self-contained HTML report and return its path, or its text without a `path`.

    Parameters
    ----------
    fx
        The decomposition to report; or a `Change` or a `Gap`, for a short page without scripts, for which only `path`,
        `title` and `open_browser` count.
    path
        The file to write, which ends in .html or .htm. An existing file is replaced only when the new one is complete.
    title
        Heading of the page; by default it names the model.
    densities
        Further densities that readers can switch to: names, or a mapping from names to densities. The density of the
        decomposition is always on the page. The page says why a density could not be computed. By default "uniform",
        "empirical" and "auto", without dependent ones if terms have no table, and none if tables have more than ten
        million cells, because the model is purified again under each.
    rows
        Rows to explain on the page, at most a hundred, as `fx.explain` takes them; by default none.
    errors
        A `Bag` with its own `fx`, or standard errors of tables: bands of two standard errors around main effects, and
        pale cells in pairs where the sign is uncertain.
    validation
        Result of ``fx.validate(X, y)``: a section about which terms hold up on held-out rows.
    impact
        Result of ``fx.impact(X, y)`` of an edited decomposition: what each edit did to scores, losses and gaps, in the
        section about what was changed.
    max_terms
        Number of terms that come with their tables, strongest first; the others are listed with their share.
    open_browser
        Whether to open the file in a browser when it is written.
    progress
        True for a progress bar, or a function, as for `decompose`.

    Returns
    -------
    pathlib.Path or str
        The path of the file; the HTML text if `path` is None.

    Raises
    ------
    ValueError
        If `path` has the suffix of another format, such as .pdf.
    ImportError
        If vl-convert-python is not installed, which brings the charts; for a `Change` or a `Gap` matplotlib.

    Notes
    -----
    Tables that are too large for a page are merged to fewer bins, and the page says so; `fx.table` has them whole.

    Examples
    --------
    >>> import pathlib, tempfile, treeanova.testing
    >>> fx, X = treeanova.testing.example()
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> path = treeanova.write_report(fx, folder / "report.html", title="Logical and", rows=X)
    >>> "<title>Logical and</title>" in path.read_text(encoding="utf-8")
    True
    """
    if path is None and open_browser:
        raise ValueError("`open_browser` must come with a `path`, got None; name a file to open.")
    target = None if path is None else pathlib.Path(path)
    if target is not None:
        check_suffix(target, PAGE)
        check_folder(target, "report.html")
    if isinstance(fx, (Change, Gap)):
        if densities is not None or rows is not None:
            kind = type(fx).__name__
            raise ValueError(f"`densities` and `rows` must be left out for a {kind}, got one; its page has neither.")
        from treeanova.report.answer_pages import change_page, gap_page  # noqa: PLC0415  needs matplotlib

        text = change_page(fx, title) if isinstance(fx, Change) else gap_page(fx, title)
        return _write_or_return(text, target, open_browser=open_browser)
    kinds = _checked_densities(DENSITIES if densities is None else densities)
    if max_terms < 1:
        raise ValueError(f"`max_terms` must be at least 1, got {max_terms!r}; 300 is the default.")
    with reporting(progress) as report:
        with one_step(report, "charts"):
            bundle = vega()
        checked: dict[str, Any] = {"errors": checked_errors(fx, errors), "validation": checked_validation(validation)}
        checked["impact"] = checked_impact(fx, impact)
        checked |= {"densities": kinds, "are_named": densities is not None}
        content = payload(fx, report, title=title, rows=rows, max_terms=max_terms, **checked)
        with one_step(report, "page"):
            text = _within_limit(content, bundle)
        return _write_or_return(text, target, report, open_browser=open_browser)


def _write_or_return(
    text: str, target: pathlib.Path | None, progress: Progress = quiet, *, open_browser: bool
) -> pathlib.Path | str:
    """Write a page to a file and return the path; without a file, return the page."""
    if target is None:
        return text
    with one_step(progress, f"writing {target.name}"):
        write_text(target, text)
    if open_browser:
        webbrowser.open(target.resolve().as_uri())
    return target


def _checked_densities(densities: Any) -> dict[str, Any]:
    """Return densities by name, from a user's list of names or mapping."""
    if isinstance(densities, Mapping):
        return {str(name): density for name, density in densities.items()}
    if isinstance(densities, str) or not all(isinstance(name, str) for name in densities):
        raise TypeError(
            f"`densities` must be a list of names or a mapping, got {densities!r}; pass ['uniform'], for one."
        )
    return {name: name for name in densities}


def as_json(content: Any) -> str:
    """Return JSON that no HTML parser can mistake for markup."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return re.sub("[<>&\u2028\u2029]", lambda match: _ESCAPES[match.group()], text)


def _policy(style: str, scripts: Sequence[str]) -> str:
    """Return the content-security policy: our style and scripts by their hashes, pictures made in the page."""
    hashes = " ".join(digest(script) for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src {digest(style)}; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _within_limit(content: Mapping[str, Any], vega_script: str) -> str:
    """Return the page, with the reason instead of the panel where it would be too large."""
    text = _page_text(content, vega_script)
    n_bytes, panel = len(text.encode(errors="surrogatepass")), content["panel"]
    if n_bytes <= MOST_BYTES or panel is None or "model" not in panel:
        return text
    return _page_text({**content, "panel": too_large(n_bytes, panel)}, vega_script)


def _page_text(content: Mapping[str, Any], vega_script: str) -> str:
    """Return the page: the template with style, scripts and the content as data."""
    style = colours() + asset("page.css") + asset("panel.css")
    code = "\n".join([evaluation_script(), *(asset(name) for name in _SCRIPTS)])
    script = f'(() => {{\n"use strict";\n{code}}})();\n'
    fields = {
        "policy": html.escape(_policy(style, [vega_script, script])),
        "title": html.escape(str(content["title"])),
        "style": style,
        "data": as_json(content),
        "vega": vega_script,
        "script": script,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: fields[match.group(1)], asset("page.html"))
