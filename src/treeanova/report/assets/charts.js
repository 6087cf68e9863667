// Vega-Lite specifications of the chosen term. Names enter as data and titles only, never as expressions.

const HISTOGRAM_HEIGHT = 48;

function cssColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

const diverging = () => [0, 1, 2, 3, 4, 5, 6, 7, 8].map((i) => cssColour(`diverging-${i}`));
const seriesColour = (i) => cssColour(`series-${i % 7}`);

const channels = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

const hex = (rgb) => `#${rgb.map((channel) => channel.toString(16).padStart(2, "0")).join("")}`;

// Red, green and blue of a value from −1 to 1, between the nine colours of the diverging scale.
function ramp(colours) {
  const stops = colours.map(channels);
  const table = Array.from({ length: 257 }, (_, i) => {
    const place = (i / 256) * (stops.length - 1);
    const below = Math.min(stops.length - 2, Math.floor(place));
    return stops[below].map((from, k) => Math.round(from + (place - below) * (stops[below + 1][k] - from)));
  });
  return (value) => table[Math.round(128 * (Math.max(-1, Math.min(1, value)) + 1))];
}

function chartConfig() {
  const [text, muted, line] = ["text", "muted", "line"].map(cssColour);
  const font = getComputedStyle(document.body).fontFamily;
  return {
    background: cssColour("panel"),
    font,
    view: { stroke: null },
    title: { color: muted, fontSize: 13, fontWeight: "normal", anchor: "start", offset: 10, font, subtitleColor: muted },
    axis: {
      labelColor: muted, titleColor: text, gridColor: line, domainColor: line, tickColor: line,
      labelFontSize: 12, titleFontSize: 13, titleFontWeight: "normal", titlePadding: 8, labelFont: font, titleFont: font,
    },
    legend: { labelColor: muted, titleColor: muted, labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal", labelFont: font, titleFont: font },
  };
}

// Lines of at most a width in pixels, for titles.
function wrapped(text, width) {
  const most = Math.max(20, Math.floor(width / 6.6));
  const lines = [""];
  for (const word of text.split(" ")) {
    const last = lines[lines.length - 1];
    if (last && last.length + word.length + 1 > most) lines.push(word);
    else lines[lines.length - 1] = last ? `${last} ${word}` : word;
  }
  return lines;
}

// Where bins lie on a drawn axis: numbers at their true bounds within the window, missing values apart at the end.
// On an axis that is not linear, by positions of the numbers; `rows` are the shares of rows in the bins.
function geometry(position, rows = null, kind = "linear") {
  const axis = report.axes[position];
  const feature = report.features[axis.feature];
  const own = bins(position);
  if (axis.kind === "category") {
    const seen = new Map();
    const labels = own.map((bin) => {
      const times = seen.get(bin.label) || 0;
      seen.set(bin.label, times + 1);
      return bin.label + "\u200b".repeat(times); // equal labels stay apart
    });
    return { category: true, name: feature.name, own, labels };
  }
  const warp = warpOf(kind, feature, own, rows);
  const ends = warp && feature.whole ? feature.whole : [feature.low, feature.high];
  const [low, high] = warp ? ends.map(warp.forward) : ends;
  const at = warp ? warp.forward : (value) => value;
  const hasSlot = own.some((bin) => bin.extra);
  const gap = 0.03 * (high - low);
  const end = hasSlot ? high + 4 * gap : high;
  const places = own.map((bin) => (bin.extra ? [high + gap, end] : [Math.max(ends[0], bin.low), Math.min(ends[1], bin.high)].map(at)));
  return { category: false, warp, ends, name: feature.name, date: feature.date, own, places, low, high, end, hasSlot };
}

// The kind of axis that a feature can have: no logarithms of dates.
const axisKind = (feature, kind) => (feature.date && kind === "log" ? "linear" : kind);

// Shares of rows in the bins of one axis of a term.
function rowsAlong(term, i) {
  if (term.order === 1) return term.rows;
  const [nRows, nColumns] = term.axes.map((axis) => bins(axis).length);
  const sums = new Array(i === 0 ? nRows : nColumns).fill(0);
  term.rows.forEach((share, cell) => { sums[i === 0 ? Math.floor(cell / nColumns) : cell % nColumns] += share; });
  return sums;
}

// Positions of numbers on an axis that is not linear: by logarithm, or with bins as wide as their shares of the rows.
function warpOf(wanted, feature, own, rows) {
  const kind = axisKind(feature, wanted);
  if (kind === "linear") return null;
  const [low, high] = feature.whole || [feature.low, feature.high];
  if (kind === "log") return { words: "log scale", forward: logarithm(own, low) };
  const inside = own.map((bin, i) => ({ ...bin, rows: rows[i] })).filter((bin) => !bin.extra && bin.high > low && bin.low < high);
  const total = inside.reduce((sum, bin) => sum + bin.rows, 0) || 1;
  const knots = [low, ...inside.slice(0, -1).map((bin) => bin.high), high];
  const places = [0];
  inside.forEach((bin) => places.push(places[places.length - 1] + (0.95 * bin.rows) / total + 0.05 / inside.length)); // empty bins stay visible
  return { words: "widths are shares of the rows", knots, forward: (value) => between(knots, places, value) };
}

// Logarithms; where there are zeros or negative numbers, linear around zero.
function logarithm(own, low) {
  if (low > 0) return (value) => Math.log(Math.max(value, low));
  const sizes = own.map((bin) => Math.abs(bin.high)).filter((size) => size > 0 && Number.isFinite(size));
  const smallest = Math.min(...sizes.filter((size) => size > 1e-6 * Math.max(...sizes)));
  const unit = Number.isFinite(smallest) ? smallest : 1;
  return (value) => Math.sign(value) * Math.log1p(Math.abs(value) / unit);
}

function between(knots, places, value) {
  const i = Math.max(1, Math.min(knots.length - 1, knots.findIndex((knot) => knot >= value)));
  if (value >= knots[knots.length - 1]) return places[places.length - 1];
  return places[i - 1] + ((Math.max(value, knots[0]) - knots[i - 1]) / (knots[i] - knots[i - 1])) * (places[i] - places[i - 1]);
}

const nDigits = (value) => Math.abs(value).toFixed(9).replace(".", "").replace(/^0+|0+$/g, "").length;

// Round numbers or dates with room between them, the roundest first; in bins as wide as their rows one each.
function spreadTicks(place, count) {
  const { warp, ends: [low, high] } = place;
  const dates = place.date ? dateTicks(low, high, 2 * count) : null;
  const powers = Array.from({ length: 25 }, (_, i) => 10 ** (i - 9));
  const round = [0, ...[1, 2, 5].flatMap((factor) => powers.flatMap((power) => [factor * power, -factor * power]))].filter((value) => value === 0 || Math.abs(value) > 1e-4 * (high - low));
  const finer = ticks(low, high, 120).sort((a, b) => nDigits(a) - nDigits(b) || a - b);
  const taken = [];
  const used = new Set();
  for (const value of dates ? dates.values : [...round, ...ticks(low, high, 5), ...finer]) {
    const at = Number(warp.forward(value).toPrecision(9));
    const bin = warp.knots ? warp.knots.findIndex((knot) => knot >= value) : taken.length;
    const hasRoom = taken.every((tick) => Math.abs(tick.at - at) >= (place.high - place.low) / count);
    if (value >= low && value <= high && hasRoom && !used.has(bin)) {
      taken.push({ at, text: dates ? new Date(value * 864e5).toISOString().slice(0, dates.form === "%Y" ? 4 : dates.form === "%Y-%m" ? 7 : 10) : number(value, 6) });
      used.add(bin);
    }
  }
  return taken;
}

// Round numbers for ticks.
function ticks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= 0.8 * rough);
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; i += 1) found.push(Number((i * step).toPrecision(12)));
  return found.length > 1 || count > 12 ? found : ticks(low, high, 2 * count);
}

// Round dates for ticks, as days since 1970, and how to write them. Distances: months, days, or parts of a day.
const MONTHS = [1200, 600, 240, 120, 60, 24, 12, 6, 3, 1];
const DAYS = [14, 7, 2, 1, 1 / 4, 1 / 24, 1 / 96, 1 / 1440, 1 / 86400];

function dateTicks(low, high, count) {
  const most = Math.max(2, count);
  const byMonth = MONTHS.filter((step) => (high - low) / (30.4 * step) <= most).pop();
  const byDay = DAYS.filter((step) => (high - low) / step <= most).pop();
  if (byDay && byDay < 28 && !(byMonth && (high - low) / (30.4 * byMonth) >= 2)) return { values: evenDays(low, high, byDay), form: byDay >= 1 ? "%Y-%m-%d" : byDay >= 1 / 1440 ? "%m-%d %H:%M" : "%H:%M:%S" };
  const step = byMonth || MONTHS[0];
  const values = [];
  const first = new Date(low * 864e5);
  for (let month = step * Math.floor((12 * first.getUTCFullYear() + first.getUTCMonth()) / step); ; month += step) {
    const day = new Date(0).setUTCFullYear(Math.floor(month / 12), month % 12, 1) / 864e5;
    if (day > high) break;
    if (day >= low) values.push(day);
  }
  return { values, form: step % 12 === 0 ? "%Y" : "%Y-%m" };
}

function evenDays(low, high, step) {
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high; i += 1) found.push(i * step);
  return found;
}

// Pixels that labels of categories may take.
const labelRoom = (place, width) => Math.min(Math.max(60, 0.28 * width), 7 * Math.max(...place.labels.map((label) => label.length)) + 8, 200);

function axisEncoding(place, field, width) {
  const titled = { title: place.warp ? `${place.name} (${place.warp.words})` : place.name, titleLimit: Math.max(120, width) };
  if (place.category) {
    return { field, type: "nominal", sort: place.order || place.labels, axis: { ...titled, labelLimit: labelRoom(place, width), ticks: false, domain: false } };
  }
  if (place.warp) return warpedEncoding(place, field, titled, Math.max(3, Math.floor(width / 60)));
  const dates = place.date ? dateTicks(place.low, place.high, Math.floor(width / 90)) : null;
  const shown = dates ? dates.values : ticks(place.low, place.high, Math.max(3, Math.floor(width / 80)));
  const slot = (place.high + 0.03 * (place.high - place.low) + place.end) / 2;
  const axis = { ...titled, values: place.hasSlot ? [...shown, slot] : shown, grid: false, labelOverlap: true };
  const label = dates ? `utcFormat(datum.value * 864e5, '${dates.form}')` : "datum.label";
  if (dates || place.hasSlot) axis.labelExpr = place.hasSlot ? `datum.value > ${place.high} ? 'missing' : ${label}` : label;
  return { field, type: "quantitative", scale: { domain: [place.low, place.end], nice: false, zero: false }, axis };
}

// The labels of ticks are numbers and dates that this page has written itself.
function warpedEncoding(place, field, titled, count) {
  const shown = spreadTicks(place, count);
  const slot = Number(((place.high + 0.03 * (place.high - place.low) + place.end) / 2).toPrecision(9));
  if (place.hasSlot) shown.push({ at: slot, text: "missing" });
  const positions = shown.map((tick) => tick.at);
  const labelExpr = `${JSON.stringify(shown.map((tick) => tick.text))}[indexof(${JSON.stringify(positions)}, datum.value)]`;
  const axis = { ...titled, values: positions, grid: false, labelOverlap: true, labelExpr };
  return { field, type: "quantitative", scale: { domain: [place.low, place.end], nice: false, zero: false }, axis };
}

// Main effects of numbers: steps at the true bounds, rows below on the same axis.

function stepsSpec(term, series, view) {
  const place = geometry(term.axes[0], term.rows, state.axis);
  const points = [];
  const cells = [];
  const extras = [];
  place.own.forEach((bin, i) => {
    const [x, x2] = place.places[i];
    if (!(x2 > x)) return;
    const tip = [[place.name, bin.label], ...series.map((one) => [one.name, signed(one.values[i], 4)]), [rowsWord, percent(term.rows[i] / 1e6, 2)]];
    cells.push({ x, x2, tip });
    series.forEach((one) => {
      const row = { x, x2, y: one.values[i], series: one.name, ...(one.band ? { low: one.band[0][i], high: one.band[1][i] } : {}) };
      if (bin.extra) extras.push(row);
      else points.push(row, ...(i + 1 < place.own.length && !place.own[i + 1].extra && place.places[i + 1][1] > place.places[i + 1][0] ? [] : [{ ...row, x: x2 }]));
    });
  });
  const hasRows = report.rows !== null;
  const x = axisEncoding(place, "x", view.width);
  const y = { field: "y", type: "quantitative", scale: { domain: view.domain, nice: false, zero: false }, axis: { title: null, tickCount: 6, format: ".6~g" } };
  const colour = seriesEncoding(series, view);
  const filled = series.filter((one) => one.area || (series.length === 1 && !one.band));
  const ends = { y: { ...y, field: "low" }, y2: { field: "high" } };
  const bands = series.filter((one) => one.band).flatMap((one) => [
    { data: { name: "band", values: points }, mark: { type: "area", interpolate: "step-after", opacity: 0.22, color: one.colour }, encoding: { x, ...ends } },
    ...(extras.length ? [{ data: { values: extras }, mark: { type: "rect", opacity: 0.22, color: one.colour }, encoding: { x, x2: { field: "x2" }, ...ends } }] : []),
  ]);
  const layer = [
    ...bands,
    ...filled.map((one) => ({ data: { values: points.filter((point) => point.series === one.name) }, mark: { type: "area", interpolate: "step-after", opacity: one.area ? 0.22 : 0.13, color: one.colour }, encoding: { x, y } })),
    { data: { values: [{}] }, mark: { type: "rule", color: cssColour("muted"), strokeWidth: 1 }, encoding: { y: { datum: 0, type: "quantitative" } } },
    { data: { name: "steps", values: points }, mark: { type: "line", interpolate: "step-after", strokeWidth: 2, strokeJoin: "round" }, encoding: { x, y, color: colour.color, strokeDash: colour.strokeDash } },
    ...(extras.length ? [{ data: { name: "extras", values: extras }, mark: { type: "rule", strokeWidth: 3 }, encoding: { x, x2: { field: "x2" }, y, color: colour.color } }] : []),
    { data: { name: "cells", values: cells }, mark: { type: "rect", opacity: 0, tooltip: { content: "data" } }, encoding: { x, x2: { field: "x2" } } },
  ];
  const main = { width: view.width, height: view.height, layer };
  if (hasRows) quietAxis(main.layer);
  return hasRows ? { vconcat: [main, histogramSpec(term, place, view)], spacing: 8, resolve: { scale: { x: "shared" } } } : main;
}

// No labels between a plot and the histogram under it.
function quietAxis(layers) {
  layers.forEach((layer) => {
    if (layer.encoding.x) layer.encoding.x = { ...layer.encoding.x, axis: { title: null, labels: false, ticks: false, grid: false } };
  });
}

function histogramSpec(term, place, view) {
  const shares = place.warp ? spreadRows(term, place) : report.features[term.features[0]].histogram;
  const width = (place.high - place.low) / shares.length;
  const bars = shares.map((share, i) => ({ x: place.low + i * width, x2: place.low + (i + 1) * width, share: share / 1e6 }));
  place.own.forEach((bin, i) => {
    if (bin.extra) bars.push({ x: place.places[i][0], x2: place.places[i][1], share: term.rows[i] / 1e6 });
  });
  return {
    width: view.width,
    height: HISTOGRAM_HEIGHT,
    data: { name: "rows", values: bars },
    mark: { type: "rect", color: cssColour("data"), stroke: cssColour("panel"), strokeWidth: 0.5 },
    encoding: {
      x: axisEncoding(place, "x", view.width),
      x2: { field: "x2" },
      y: { field: "share", type: "quantitative", axis: { title: "rows", titleFontSize: 12, titleColor: cssColour("muted"), tickCount: 2, format: "~%", grid: false, domain: false } },
      y2: { datum: 0 },
    },
  };
}

// Shares of rows in equal parts of an axis; those of a bin are spread evenly over its drawn width.
function spreadRows(term, place) {
  const parts = new Array(48).fill(0);
  const width = (place.high - place.low) / parts.length;
  place.places.forEach(([from, to], i) => {
    if (place.own[i].extra || !(to > from)) return;
    parts.forEach((_, k) => {
      const [start, end] = [place.low + k * width, place.low + (k + 1) * width];
      parts[k] += (term.rows[i] * Math.max(0, Math.min(to, end) - Math.max(from, start))) / (to - from);
    });
  });
  return parts;
}

function seriesEncoding(series, view) {
  const legend = series.length > 1 ? { title: null, orient: view.narrow ? "bottom" : "top", symbolType: "stroke", symbolStrokeWidth: 3, symbolSize: 240 } : null;
  const domain = series.map((one) => one.name);
  return {
    color: { field: "series", type: "nominal", scale: { domain, range: series.map((one) => one.colour) }, legend },
    strokeDash: { field: "series", type: "nominal", scale: { domain, range: series.map((one) => one.dash || [1, 0]) }, legend },
  };
}

// Main effects of categories: bars, largest first, unseen and missing last; the share of rows to their right.

function barsSpec(term, series, view) {
  const place = geometry(term.axes[0]);
  const inOrder = {
    value: (a, b) => series[0].values[b] - series[0].values[a],
    rows: (a, b) => term.rows[b] - term.rows[a],
    name: (a, b) => place.labels[a].localeCompare(place.labels[b], "en", { numeric: true }),
  };
  const order = place.own.map((_, i) => i).sort((a, b) => place.own[a].extra - place.own[b].extra || inOrder[state.categories](a, b));
  place.order = order.map((i) => place.labels[i]);
  const cells = place.own.flatMap((bin, i) =>
    series.map((one) => ({
      label: place.labels[i], y: one.values[i], series: one.name, rows: term.rows[i] / 1e6, positive: one.values[i] >= 0,
      ...(one.band ? { low: one.band[0][i], high: one.band[1][i] } : {}),
      tip: [[place.name, bin.label], [one.name, signed(one.values[i], 4)], [rowsWord, percent(term.rows[i] / 1e6, 2)]],
    })),
  );
  const single = series.length === 1;
  const step = Math.max(14, Math.min(34, view.height / place.own.length)) * (single ? 1 : Math.max(1, series.length / 2));
  const y = axisEncoding(place, "label", view.width);
  y.axis.titleLimit = Math.max(100, step * place.own.length);
  const colour = single
    ? { condition: { test: "datum.positive", value: cssColour("positive") }, value: cssColour("negative") }
    : { ...seriesEncoding(series, view).color, legend: { title: null, orient: "top" } };
  const value = { field: "y", type: "quantitative", scale: { domain: view.domain, nice: false }, axis: { title: null, tickCount: 5, format: ".6~g" } };
  const room = Math.max(90, view.width - labelRoom(place, view.width) - (view.narrow ? 70 : 110));
  const bars = {
    mark: { type: "bar", tooltip: { content: "data" }, height: { band: 0.75 } },
    encoding: { y, x: value, color: colour, ...(single ? {} : { yOffset: { field: "series", sort: series.map((one) => one.name) } }) },
  };
  const effect = {
    width: room,
    height: step * place.own.length,
    data: { name: "cells", values: cells },
    ...(single && series[0].band ? { layer: [bars, { mark: { type: "rule", strokeWidth: 1.5, color: cssColour("text") }, encoding: { y, x: { ...value, field: "low" }, x2: { field: "high" } } }] } : bars),
  };
  const rows = {
    width: view.narrow ? 40 : 90,
    height: step * place.own.length,
    data: { name: "rows", values: cells.filter((cell) => cell.series === series[0].name) },
    mark: { type: "bar", color: cssColour("data"), height: { band: 0.6 } },
    encoding: { y: { ...y, axis: null }, x: { field: "rows", type: "quantitative", axis: { title: report.rows === null ? "weight" : "rows", format: ".0%", tickCount: 2, grid: false } } },
  };
  return { hconcat: [effect, rows], spacing: 12, resolve: { scale: { y: "shared" } } };
}

// Pairs: heat maps with zero in the colour of the background, cells without rows in grey.

// Whether the first feature goes up instead of across: categories over numbers, whose labels read better on the left.
function isTurned(term) {
  const [first, second] = term.axes.map((axis) => report.axes[axis].kind === "category");
  return first && !second;
}

// The cell of a pair's table that is in a row (the feature that goes up) and a column (the one that goes across).
const cellAt = (term, row, column) => (isTurned(term) ? row * bins(term.axes[1]).length + column : column * bins(term.axes[1]).length + row);

// The value of the strongest colour: the largest with rows, or less where few cells reach far beyond all others.
// Few cells: at most 2 % of the rows and 3 % of the drawn area. Far: twice as far. As plots have it.
function colourLimit(term, lists) {
  const widths = term.axes.map((axis) => {
    const place = geometry(axis);
    return place.category ? place.own.map(() => 1 / place.own.length) : place.places.map(([from, to]) => Math.max(0, to - from) / (place.end - place.low));
  });
  const nColumns = widths[1].length;
  const seen = lists.flatMap((list) => list.map((value, i) => ({ size: Math.abs(value), rows: term.rows[i], area: widths[0][Math.floor(i / nColumns)] * widths[1][i % nColumns] }))).filter((cell) => cell.rows > 0);
  if (!seen.length) return Math.max(...lists.flat().map(Math.abs)) || 1;
  seen.sort((a, b) => a.size - b.size);
  const quantile = (weight, share) => {
    let left = share * seen.reduce((sum, cell) => sum + cell[weight], 0);
    return (seen.find((cell) => { left -= cell[weight]; return left <= 1e-12; }) || seen[seen.length - 1]).size;
  };
  const largest = seen[seen.length - 1].size;
  const typical = Math.max(quantile("rows", 0.98), quantile("area", 0.97));
  return (typical > 0 && largest > 2 * typical ? typical : largest) || 1;
}

function mapsSpec(term, panels, view) {
  const places = term.axes.map((axis, i) => geometry(axis, rowsAlong(term, i), state.axis));
  if (!isTurned(term)) places.reverse(); // up, across
  const columns = panels.length === 1 || view.narrow ? 1 : panels.length;
  const legendRoom = view.narrow ? 0 : 70;
  const labels = places[0].category ? labelRoom(places[0], view.width) : 0;
  const width = Math.floor((view.width - legendRoom - labels - (columns - 1) * 30) / columns);
  const height = Math.min(view.height + HISTOGRAM_HEIGHT + 20, Math.max(220, Math.floor(width * 0.8)));
  const maps = panels.map((panel, i) => mapSpec(term, panel, places, { ...view, wide: view.width, width, height, first: i % columns === 0, panels }));
  if (maps.length === 1) return maps[0];
  return { [columns === 1 ? "vconcat" : "hconcat"]: maps, spacing: 24, resolve: { scale: { color: "shared" } } };
}

function mapSpec(term, panel, [vertical, horizontal], view) {
  const cells = mapCells(term, panel, vertical, horizontal);
  const bound = Math.max(Math.abs(view.domain[0]), Math.abs(view.domain[1])) || 1;
  const colours = diverging();
  const domain = colours.map((_, i) => bound * ((2 * i) / (colours.length - 1) - 1));
  const legend = view.narrow
    ? { title: null, orient: "bottom", gradientLength: view.width, gradientThickness: 10, format: ".6~g", tickCount: 5 }
    : { title: null, gradientLength: Math.min(view.height, 260), gradientThickness: 12, format: ".6~g", tickCount: 7 };
  const x = axisEncoding(horizontal, "x", view.width);
  if (horizontal.category) x.axis = { ...x.axis, labelAngle: -40, labelLimit: 90 };
  const y = axisEncoding(vertical, "y", vertical.category ? view.wide : view.height);
  if (!view.first) y.axis = { ...y.axis, title: null, labels: false, ticks: false };
  const ends = { ...(horizontal.category ? {} : { x2: { field: "x2" } }), ...(vertical.category ? {} : { y2: { field: "y2" } }) };
  const hue = ramp(colours);
  const back = channels(cssColour("panel"));
  const pale = (rgb) => rgb.map((channel, i) => Math.round(0.28 * channel + 0.72 * back[i]));
  cells.forEach((cell) => { cell.colour = hex((cell.unsure ? pale : (rgb) => rgb)(hue(cell.value / bound))); });
  const painted = { field: "colour", type: "nominal", scale: null };
  const rect = (name, empty, mark) => ({
    data: { name, values: cells.filter((cell) => (cell.rows === 0) === empty) },
    mark: { type: "rect", tooltip: { content: "data" }, strokeWidth: 0.7, ...mark },
    encoding: { x, y, ...ends, ...(empty ? {} : { fill: painted, stroke: painted }) },
  });
  // Cells bring their colours, with strokes that close the seams between neighbours; an unseen point brings the legend.
  const key = {
    data: { values: [{ value: 0 }] },
    mark: { type: "point", opacity: 0 },
    encoding: { color: { field: "value", type: "quantitative", scale: { domain, range: colours, interpolate: "rgb" }, legend: { ...legend, gradientOpacity: 1 } } },
  };
  const grey = cssColour("no-data");
  return {
    ...(view.panels.length > 1 ? { title: { text: panel.name, fontSize: 13 } } : {}),
    width: view.width,
    height: view.height,
    layer: [rect(`empty ${panel.name}`, true, { color: grey, stroke: grey }), rect(`cells ${panel.name}`, false, {}), key],
  };
}

function mapCells(term, panel, vertical, horizontal) {
  const cells = [];
  vertical.own.forEach((row, i) => {
    horizontal.own.forEach((column, j) => {
      const at = cellAt(term, i, j);
      const [x, x2] = horizontal.category ? [horizontal.labels[j], null] : horizontal.places[j];
      const [y, y2] = vertical.category ? [vertical.labels[i], null] : vertical.places[i];
      if ((x2 !== null && !(x2 > x)) || (y2 !== null && !(y2 > y))) return;
      const tip = [[vertical.name, row.label], [horizontal.name, column.label], [panel.name, signed(panel.values[at], 4)], [rowsWord, percent(term.rows[at] / 1e6, 3)]];
      const unsure = Boolean(panel.unsure && panel.unsure[at]);
      if (unsure) tip.push(["sign", "uncertain"]);
      cells.push({ x, x2, y, y2, value: panel.values[at], rows: term.rows[at], unsure, tip });
    });
  });
  return cells;
}

// A row's score, term by term, for files; the page itself shows the same as a table.

function waterfallSpec(steps, title, width) {
  const bars = steps.map((step, i) => ({ ...step, label: step.label + "\u200b".repeat(i), positive: step.to >= step.from }));
  const colour = { condition: { test: "datum.positive", value: cssColour("positive") }, value: cssColour("negative") };
  return {
    title: { text: title },
    width,
    height: 24 * bars.length,
    data: { values: bars },
    mark: { type: "bar" },
    encoding: {
      y: { field: "label", type: "nominal", sort: bars.map((bar) => bar.label), axis: { title: null, labelLimit: 320, ticks: false, domain: false } },
      x: { field: "from", type: "quantitative", scale: { zero: false }, axis: { title: report.scale.score } },
      x2: { field: "to" },
      color: colour,
    },
  };
}

// The specification of a term's panels or series, with words on top.
function termSpec(term, panels, view) {
  const draw = term.order === 2 ? mapsSpec : report.axes[term.axes[0]].kind === "category" ? barsSpec : stepsSpec;
  const spec = draw(term, panels, view);
  const lines = wrapped(capital(view.words), view.width);
  const title = view.heading ? { text: wrapped(view.heading, view.width), subtitle: lines, color: cssColour("text"), fontSize: 16, subtitleFontSize: 13 } : { text: lines };
  return { ...spec, title, config: chartConfig() };
}
