// The shell: state in the address's hash, switches, the first screen, the ranked list.

const PAGE_OF_LIST = 60;
const MOST_TABLE_CELLS = 1200;
const MOST_STEPS = 12;

const at = (id) => document.getElementById(id);

// An element with text and attributes. Children are nodes or text, never markup.
function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

// State.

const DEFAULTS = {
  term: report.terms.length ? report.terms[0].title : "", view: "effect", form: "pure", density: report.densities[0], output: "0",
  scale: "score", range: "own", axis: "linear", categories: "value", theme: "auto", sort: "variance", order: "all", search: "", row: "0",
};
const ALLOWED = {
  view: ["effect", "compare", "densities"], form: ["pure", RAW], density: report.densities, scale: ["score", "response"],
  range: ["own", "shared"], axis: ["linear", "log", "quantile"], categories: ["value", "rows", "name"], theme: ["auto", "light", "dark"], sort: ["variance", "share", "size", "moved", "name"], order: ["all", "1", "2", "3"],
  output: report.outputs.map((_, k) => String(k)),
};
let state = { ...DEFAULTS };
let listed = PAGE_OF_LIST;

function readHash() {
  const found = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const next = { ...DEFAULTS };
  for (const name of Object.keys(DEFAULTS)) {
    if (name in found && (!ALLOWED[name] || ALLOWED[name].includes(found[name]))) next[name] = found[name];
  }
  if (!report.scale.response) next.scale = "score";
  state = next;
}

function writeHash() {
  const changed = Object.entries(state).filter(([name, value]) => value !== DEFAULTS[name]);
  history.replaceState(null, "", `#${new URLSearchParams(changed)}`);
}

function change(part) {
  state = { ...state, ...part };
  writeHash();
  render();
}

const chosenTerm = () => report.terms.find((term) => term.title === state.term) || report.terms[0];
const output = () => Number(state.output);
const formName = () => (state.form === RAW ? RAW : state.density);

// Switches.

function choice(label, name, options) {
  const segments = el("div", { class: "segments" });
  for (const [value, text] of options) {
    const input = el("input", { type: "radio", name, value, onchange: () => change({ [name]: value }) });
    input.checked = state[name] === value;
    segments.append(el("label", {}, input, el("span", {}, text)));
  }
  return el("fieldset", { class: "choice", "data-choice": name }, el("legend", {}, label), segments);
}

function dropdown(label, name, options, onchange = null) {
  const select = el("select", { name, onchange: (event) => (onchange || change)({ [name]: event.target.value }) });
  for (const [value, text] of options) select.append(el("option", { value }, text));
  select.value = state[name];
  return el("label", { class: "choice" }, el("span", {}, label), select);
}

// Builds a part of the page again, and puts the focus back to where it was.
function keepFocus(build) {
  const active = document.activeElement;
  const name = active && active.name;
  build();
  const again = name && document.querySelector(`[name="${CSS.escape(name)}"]:is(select, input:checked)`);
  if (again && active.type !== "search") again.focus();
}

function renderSwitches() {
  const switches = [];
  if (report.densities.length > 1) switches.push(choice("Density", "density", report.densities.map((name) => [name, name])));
  switches.push(choice("Form", "form", [["pure", "pure"], [RAW, "raw"]]));
  if (report.outputs.length > 1) switches.push(dropdown("Output", "output", report.outputs.map((name, k) => [String(k), name])));
  if (report.scale.response) switches.push(choice("Scale", "scale", [["score", report.scale.score], ["response", report.scale.response]]));
  switches.push(choice("Range", "range", [["own", "own"], ["shared", "shared"]]));
  const kinds = new Set((chosenTerm().axes || []).map((axis) => report.axes[axis].kind));
  if (kinds.has("interval")) switches.push(choice("Axis", "axis", ALLOWED.axis.map((kind) => [kind, kind])));
  if (kinds.has("category") && chosenTerm().order === 1) switches.push(choice("Categories by", "categories", ALLOWED.categories.map((kind) => [kind, kind])));
  at("switches").replaceChildren(...switches);
  const views = [["effect", "Effect"], ["compare", "Raw against pure"]];
  if (report.densities.length > 1) views.push(["densities", "Densities"]);
  const tabs = choice("View", "view", views);
  tabs.querySelector("legend").hidden = true;
  at("views").replaceChildren(tabs);
}

// First screen.

function renderHeader() {
  const rows = report.rows === null ? "no rows given" : rowsText(report.rows);
  const of = report.outputs.length > 1 ? ` · output ${report.outputs[output()]}` : "";
  at("facts").textContent = `${report.model} · ${rows} · density ${state.density} · scale ${report.scale.score}${of}`;
  at("title").textContent = report.title;
  const known = headlineOf(state.density, state.form, output());
  const { sentence, orders } = known || { sentence: "The raw form is not ranked here: that needs rows, which this decomposition was loaded without.", orders: [] };
  at("sentence").textContent = sentence;
  const isRaw = state.form === RAW;
  const varies = orders.some((share) => share !== 0);
  const here = termsOf(state.density, state.form, output());
  const hasRemainder = here.some((term) => !term.features && !term.is_sum);
  const names = ["main effects", "pairs", hasRemainder ? "higher orders and remainder" : "higher orders"];
  const parts = varies ? orders.map((share, i) => el("span", {}, el("i", { class: `order-${i + 1}` }), percent(share), el("small", {}, names[i]))) : ["–"];
  const stack = el("div", { class: "stack" }, ...orders.map((share, i) => sized(el("span", { class: `order-${i + 1}` }), Math.max(0, share))));
  const drawn = here.filter((term) => term.hasTable).length;
  const terms = here.filter((term) => !term.is_sum).length;
  const all = report.n_terms_of_model ? ` · ${report.n_terms_of_model} in the model` : "";
  at("numbers").replaceChildren(
    el("div", {}, el("dt", {}, `Shares by order${isRaw ? ", raw form" : ""}${varies ? ": they add up to 100\u00a0%" : ""}`), el("dd", {}, el("div", { class: "orders" }, ...parts), stack)),
    el("div", {}, el("dt", {}, isRaw ? "Terms of the raw form" : "Terms"), el("dd", {}, `${terms}`, el("small", {}, `${drawn} with pictures${all}`))),
    report.n_terms_of_model
      ? el("div", {}, el("dt", {}, "Sum of terms"), el("dd", {}, "a part", el("small", {}, "of the model: a selection of its terms")))
      : el("div", {}, el("dt", {}, `Largest |prediction − sum of terms${report.has_remainder ? " and remainder" : ""}|`), el("dd", {}, number(report.reconstruction_errors[formName()], 2), el("small", {}, "of the largest score"))),
  );
}

function sized(element, share) {
  element.style.width = `${Math.min(100, 100 * share)}%`;
  return element;
}

// The list.

const MEASURES = {
  variance: report.variance_words,
  share: "share of the variance: variance + covariance with all other terms",
  size: `mean |effect|, in units of the ${report.scale.score}`,
};

function renderFinder() {
  const search = el("input", { type: "search", id: "search", placeholder: "Search terms", "aria-label": "Search terms" });
  search.value = state.search;
  search.addEventListener("input", () => listChange({ search: search.value }));
  const sorts = [["variance", "variance"], ["share", "share"], ["size", "mean |effect|"], ["moved", "change raw → pure"], ["name", "name"]];
  const orders = [["all", "all orders"], ["1", "main effects"], ["2", "pairs"], ["3", "higher orders"]];
  at("finder").replaceChildren(
    el("div", { class: "search" }, search),
    dropdown("Sort by", "sort", sorts, listChange),
    dropdown("Show", "order", orders, listChange),
  );
}

function listChange(part) {
  state = { ...state, ...part };
  listed = PAGE_OF_LIST;
  writeHash();
  renderList();
}

function matching() {
  // An x between two words is a typed ×; elsewhere it may be the name of a feature.
  const isSign = (word, i, all) => word === "×" || (word === "x" && i > 0 && i < all.length - 1);
  const words = state.search.toLowerCase().split(/\s+/).filter((word, i, all) => word && !isSign(word, i, all));
  const found = termsOf(state.density, state.form, output()).filter((term) => {
    const name = term.title.toLowerCase();
    const order = state.order === "all" || String(Math.min(term.order, 3)) === state.order;
    return order && words.every((word) => name.includes(word));
  });
  const now = (term) => standing(term, state.density, state.form, output()) || { share: 0, size: 0 };
  const other = (term) => standing(term, state.density, state.form === RAW ? "pure" : RAW, output()) || { share: 0, size: 0 };
  const sorts = {
    variance: () => 0, // as they come
    share: (a, b) => now(b).share - now(a).share,
    size: (a, b) => now(b).size - now(a).size,
    moved: (a, b) => Math.abs(now(b).share - other(b).share) - Math.abs(now(a).share - other(a).share),
    name: (a, b) => a.title.localeCompare(b.title),
  };
  return found.sort(sorts[state.sort]);
}

function renderList() {
  const found = matching();
  const here = termsOf(state.density, state.form, output());
  const measure = MEASURES[state.sort] ? state.sort : "variance";
  const largest = Math.max(1e-12, ...here.map((term) => (standing(term, state.density, state.form, output()) || { [measure]: 0 })[measure]));
  at("measure").textContent = MEASURES[measure];
  at("list").replaceChildren(...found.slice(0, listed).map((term) => el("li", {}, listButton(term, measure, largest))));
  const rest = found.slice(listed);
  const left = rest.reduce((sum, term) => sum + (standing(term, state.density, state.form, output()) || { [measure]: 0 })[measure], 0);
  const leftWords = measure === "size" ? "" : `: their ${measure}s add up to ${percent(left)}`;
  const sums = here.filter((term) => term.is_sum).length;
  const whole = `${here.length - sums} terms${sums ? ` and ${sums} sums of other terms` : ""}`;
  const words = rest.length ? `Remaining ${rest.length} terms${leftWords}.` : found.length < here.length ? `${found.length} of ${here.length} terms match.` : `All ${whole} are listed.`;
  const shown = found.slice(0, listed).map((term) => standing(term, state.density, state.form, output()));
  const known = headlineOf(state.density, state.form, output());
  const negative = shown.some((place) => place && isShownNegative(place.share)) ? ` ${report.negative_share}` : "";
  const note = { variance: known && known.sum ? ` ${known.sum}` : "", share: known && known.orders.some((share) => share !== 0) ? ` Shares add up to 100\u00a0%.${negative}` : "" }[measure] || "";
  const more = el("button", { type: "button", onclick: () => { listed += PAGE_OF_LIST; renderList(); } }, "Show more");
  at("rest").replaceChildren(words, note, ...(rest.length ? [more] : []));
}

// The end of a long name is always shown, since names that begin alike often differ there.
const NAME_END = 8;

function listButton(term, measure, largest) {
  const place = standing(term, state.density, state.form, output());
  const gauge = el("span", { class: `order-${Math.min(term.order, 3)}` });
  const button = el(
    "button",
    { type: "button", title: term.title, "aria-current": String(term === chosenTerm()), onclick: () => change({ term: term.title }) },
    el("span", { class: "name" }, el("span", {}, term.short.slice(0, -NAME_END)), term.short.slice(-NAME_END)),
    el("span", { class: "gauge" }, sized(gauge, place ? Math.max(0, place[measure] / largest) : 0)),
    sparkline(term),
    el("span", { class: "share" }, place ? (measure === "size" ? number(place.size) : percent(place[measure])) : "–"),
  );
  return button;
}

// Arrow keys walk the list.
at("list").addEventListener("keydown", (event) => {
  const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
  const next = step && event.target.closest("li") && event.target.closest("li")[step];
  if (!next) return;
  event.preventDefault();
  next.querySelector("button").focus();
});

function sparkline(term) {
  const own = term.axes && values(term, formName(), output());
  if (!own) return el("span", { class: "spark" });
  return term.order === 2 ? thumbnail(term, own) : curve(term, own);
}

function curve(term, own) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const [width, height] = [72, 24];
  const low = Math.min(0, ...own);
  const high = Math.max(0, ...own);
  const y = (value) => (high > low ? 2 + ((high - value) / (high - low)) * (height - 4) : height / 2).toFixed(1);
  const place = geometry(term.axes[0]);
  const spans = place.category ? own.map((_, i) => [i / own.length, (i + 0.8) / own.length]) : place.places.map(([a, b]) => [(a - place.low) / (place.end - place.low), (b - place.low) / (place.end - place.low)]);
  const shown = own.map((value, i) => ({ value, span: spans[i], extra: place.own[i].extra })).filter(({ span }) => span[1] > span[0]);
  const x = (share) => (share * width).toFixed(1);
  const path = place.category
    ? shown.map(({ value, span }) => `M${x(span[0])} ${y(0)}V${y(value)}H${x(span[1])}V${y(0)}Z`)
    : shown.map(({ value, span, extra }, i) => `${i && !extra ? "L" : "M"}${x(span[0])} ${y(value)}H${x(span[1])}`);
  for (const [kind, d] of [["zero", `M0 ${y(0)}H${width}`], [place.category ? "bars" : "line", path.join("")]]) {
    const line = document.createElementNS(made.namespaceURI, "path");
    line.setAttribute("d", d);
    line.setAttribute("class", kind);
    made.append(line);
  }
  made.setAttribute("viewBox", `0 0 ${width} ${height}`);
  made.setAttribute("preserveAspectRatio", "none");
  made.setAttribute("class", "spark");
  made.setAttribute("aria-hidden", "true");
  return made;
}

// A pair's heat map, a pixel per cell.
function thumbnail(term, own) {
  const sizes = term.axes.map((axis) => bins(axis).length);
  const [rows, columns] = isTurned(term) ? sizes : sizes.reverse();
  const canvas = el("canvas", { class: "spark", width: columns, height: rows, "aria-hidden": "true" });
  const picture = canvas.getContext("2d").createImageData(columns, rows);
  const bound = colourLimit(term, [own]);
  for (let pixel = 0; pixel < own.length; pixel += 1) {
    const cell = cellAt(term, rows - 1 - Math.floor(pixel / columns), pixel % columns);
    const [r, g, b] = term.rows[cell] ? thumbColours.hue(own[cell] / bound) : thumbColours.empty;
    picture.data.set([r, g, b, 255], 4 * pixel);
  }
  canvas.getContext("2d").putImageData(picture, 0, 0);
  return canvas;
}

let thumbColours = null; // of the theme
