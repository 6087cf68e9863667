// All parts together, and what makes them change.

function renderNav() {
  const sections = [["terms", "Terms"], ...(report.panel ? [["try", "Try it"]] : []), ...(report.local ? [["rows", "Rows"]] : []), ...(report.validation ? [["validation", "Held-out rows"]] : []), ...(report.changes ? [["changes", "What was changed"]] : []), ["checks", "Checks"], ["guide", "How to read"]];
  at("nav").replaceChildren(...sections.map(([id, text]) => el("button", { type: "button", onclick: () => at(id).scrollIntoView() }, text)));
}

function applyTheme() {
  const dark = state.theme === "dark" || (state.theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  thumbColours = { hue: ramp(diverging()), empty: channels(cssColour("no-data")) };
  const tabs = choice("Theme", "theme", [["auto", "auto"], ["light", "light"], ["dark", "dark"]]);
  tabs.querySelector("legend").hidden = true;
  tabs.setAttribute("aria-label", "Theme");
  at("theme").replaceChildren(tabs);
}

function render() {
  keepFocus(() => {
    applyTheme();
    renderHeader();
    renderSwitches();
    renderList();
    renderRows();
  });
  if (panel) renderResults();
  renderChecks();
  if (report.terms.length) renderChosen();
}

let resized = null;
let lastWidth = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === lastWidth) return;
  lastWidth = innerWidth;
  clearTimeout(resized);
  resized = setTimeout(() => report.terms.length && drawPlot(chosenTerm()), 150);
});
addEventListener("hashchange", () => { readHash(); renderFinder(); render(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", render);
at("twin").addEventListener("toggle", () => renderTable(chosenTerm()));

readHash();
renderNav();
renderFinder();
render();
renderWords();
renderPanel();
renderValidation();
renderChanges();
// For tests and the curious: the data, the one view that is drawn, its specification, and the settings of "Try it".
window.treeanova = { report, view: () => drawn && drawn.view, specification: () => drawn && drawn.spec, panel };
