"use strict";
(() => {
  const root = document.documentElement;
  const element = (id) => document.getElementById(id);

  // --- theme: as the system has it, unless the reader has chosen ---
  const stored = (() => { try { return localStorage.getItem("r2et-theme"); } catch { return null; } })();
  if (stored === "dark" || stored === "light") root.dataset.theme = stored;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const button = element("theme");
  const label = () => { button.textContent = dark() ? "Light theme" : "Dark theme"; };
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("r2et-theme", root.dataset.theme); } catch { /* private windows have no storage */ }
    label();
  });
  system.addEventListener("change", label);
  label();
  button.hidden = false;

  // --- small helpers: text is only ever set as text ---
  const make = (tag, text, className) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };
  const minus = (text) => text.replace("-", "\u2212");
  const short = (value) => {
    if (value !== 0 && Math.abs(value) < 1e-4) return minus(value.toExponential(1));
    return minus(String(Number(value.toPrecision(3))));
  };
  const signed = (value) => (value > 0 ? "+" : "") + short(value);
  const percent = (share) => {
    const value = 100 * share;
    if (value > 0 && value < 0.05) return "<0.1\u00a0%";
    if (value > 99.95 && value < 100) return ">99.9\u00a0%";
    const digits = value > 0 && value < 100 && (value < 1 || value > 99) ? 1 : 0;
    return `${value.toFixed(digits)}\u00a0%`;
  };
  const table = (caption, columns) => {
    const made = make("table");
    made.append(make("caption", caption));
    const line = made.createTHead().insertRow();
    for (const column of columns) {
      const cell = make("th", column);
      cell.scope = "col";
      line.append(cell);
    }
    made.append(make("tbody"));
    return made;
  };
  const named = (text) => {
    const made = make("span", text, text.length > 60 ? "name" : "");
    made.title = text;
    return made;
  };

  // --- explorer ---
  const data = JSON.parse(element("data").textContent);
  const order = element("order"), radius = element("radius"), row = element("row");
  const several = data.models.length > 1;
  const addOption = (select, value, text) => {
    const made = make("option", text);
    made.value = value;
    select.append(made);
  };
  data.models.forEach((model, number) => {
    addOption(order, `fragile-${number}`, several ? `most fragile first: ${model.name}` : "most fragile first");
  });
  addOption(order, "data", "as in the data");
  const radii = [...new Set(data.models.flatMap((model) => model.radii))].sort((a, b) => a - b);
  radii.forEach((value) => addOption(radius, String(value), short(value)));
  radius.value = String(radii[radii.length - 1]);

  const sequence = () => (order.value === "data" ? data.numbers : data.models[Number(order.value.slice(8))].order);
  let current = sequence()[0];
  const open = { lists: false };

  const nameOf = (number) => (data.names[number] === undefined ? String(number) : data.names[number]);
  const numbered = data.numbers.every((number) => /^\d{1,15}$/.test(nameOf(number)));
  if (numbered) row.inputMode = "numeric";

  const reasonTable = (caption, reasons, position, word, className, direction, values) => {
    const own = values ? [`own value`] : [], speaks = direction === "signed" ? ["speaks"] : [];
    const made = table(caption, ["#", data.what, ...own, ...speaks, "score"]);
    made.className = "reasons";
    if (values) made.tHead.rows[0].cells[2].className = "own";
    reasons.forEach(([feature, score, stays], place) => {
      const line = made.tBodies[0].insertRow();
      const rank = make("th", String(place + 1));
      rank.scope = "row";
      const name = make("td");
      name.append(named(data.features[feature]));
      if (stays[position] === "0") {
        line.className = className;
        name.append(" ", make("span", word, "tag"));
      }
      line.append(rank, name);
      if (values) line.append(make("td", values[feature] || "\u2013", "own"));
      if (speaks.length) line.append(make("td", score > 0 ? "for" : score < 0 ? "against" : ""));
      line.append(make("td", short(score)));
    });
    if (!reasons.length) {
      const cell = made.tBodies[0].insertRow().insertCell();
      cell.colSpan = made.tHead.rows[0].cells.length;
      cell.textContent = "none";
    }
    return made;
  };

  const ownChanges = (entry, at) => {
    const made = table("What the attack changed, largest first, in the units of the data", ["column", "was", "becomes"]);
    made.classList.add("changes");
    for (const [name, was, becomes] of entry.changes[at]) {
      const line = made.tBodies[0].insertRow();
      const cell = make("th");
      cell.scope = "row";
      cell.append(named(name));
      line.append(cell, make("td", was), make("td", becomes));
    }
    if (!entry.changes[at].length) return make("p", "No column was changed by as much as one step of its own.");
    if (entry.more[at]) made.caption.textContent += ` (${entry.more[at]} more changed less)`;
    return made;
  };

  const changes = (entry) => {
    const made = table("What the attack changed, largest first, in the units that the model sees", ["feature", "was", "change", "becomes"]);
    for (const [number, value, by] of entry.moved) {
      const line = made.tBodies[0].insertRow();
      const cell = make("th");
      cell.scope = "row";
      const which = data.members === 2 ? (number < data.inputs ? " (first input)" : " (second input)") : "";
      cell.append(named(data.input_names[number % data.inputs] + which));
      line.append(cell, make("td", short(value)), make("td", signed(by)), make("td", short(value + by)));
    }
    return made;
  };

  const panel = (model, modelNumber) => {
    const made = make("article", undefined, "panel");
    const entry = model.rows[current];
    const at = model.radii.indexOf(Number(radius.value));
    if (several) made.append(make("h3", model.name));
    const label = data.labels[current];
    const right = entry.predicted === label;
    if (data.outcome !== null) made.append(make("p", `Predicted ${data.outcome}: ${entry.predicted}. In fact it was ${label}.`));
    else made.append(make("p",
      `Decision: ${data.classes[entry.predicted]} (probability ${percent(entry.probability)}). ` +
      `In the data: ${data.classes[label]}${right ? ", as predicted" : ": the prediction is wrong"}.`));
    const proven = entry.certified === null ? "There is no certificate for this row."
      : entry.certified === "any" ? "It is proven that no change of any size replaces one of its reasons."
      : `It is proven that no change of norm below ${short(entry.certified)} replaces one of its reasons.`;
    made.append(make("p", proven));
    if (at < 0) {
      made.append(make("p", "This model was not attacked with this norm."));
      return made;
    }
    const varies = entry.lost !== null;
    const lost = varies ? entry.lost[at] : Math.round((1 - entry.stay[at]) * model.k * data.members);
    const total = varies ? entry.before.reduce((sum, list) => sum + list.length, 0) : model.k * data.members;
    const found = make("p");
    found.append(make("strong", lost
      ? `${lost} of its ${total} reasons can be replaced by a change of norm ${short(entry.distance[at])}.`
      : entry.stay[at] < 1 ? `A change of norm ${short(entry.distance[at])} adds reasons to its list.`
      : "No attack replaced any of its reasons."));
    made.append(found);
    for (let member = 0; member < data.members; member += 1) {
      const which = data.members === 2 ? (member ? "second input, " : "first input, ") : "";
      const picture = element(`picture-${modelNumber}-${current}-${member}`);
      if (picture) {
        const copy = picture.cloneNode(true);
        copy.removeAttribute("id");
        made.append(copy);
      }
      const lists = make("div", undefined, "lists");
      const before = make("div"), after = make("div");
      const toward = model.direction === "positive" ? `Reasons for ${data.classes[entry.predicted]}, ` : "Reasons, ";
      const values = data.own ? entry.values : undefined;
      const later = values && { ...values };
      // the list afterwards is of the changed row
      if (later) for (const [name, , becomes] of entry.changes[at]) {
        for (const feature of Object.keys(later)) if (data.features[feature] === name) later[feature] = becomes;
      }
      before.append(reasonTable(`${toward}${which}before`, entry.before[member], at, "\u2193 leaves", "lost-reason", model.direction, values));
      after.append(reasonTable(`${toward}${which}after`, entry.after[at][member], 0, "\u2191 enters", "entered-reason", model.direction, later));
      lists.append(before, after);
      const listed = entry.before[member].length;
      if (picture || model.k > 12) {
        const folded = make("details");
        folded.open = open.lists;
        folded.addEventListener("toggle", () => { open.lists = folded.open; });
        folded.append(make("summary", `The reasons as lists${model.k > listed ? `, the first ${listed} of ${model.k}` : ""}`));
        folded.append(lists);
        made.append(folded);
      } else made.append(lists);
    }
    if (data.moves) { if (entry.stay[at] < 1) made.append(ownChanges(entry, at)); }
    else if (at === model.radii.length - 1 && entry.moved.length) made.append(changes(entry));
    else if (entry.moved.length) {
      made.append(make("p", "What was changed is kept for the largest norm: choose it above to see it.", "quiet"));
    }
    return made;
  };

  const show = () => {
    const rows = sequence();
    const place = rows.indexOf(current);
    row.value = nameOf(current);
    element("previous").disabled = place <= 0;
    element("next").disabled = place === rows.length - 1;
    element("status").textContent = `Row ${nameOf(current)}: number ${place + 1} of ${rows.length} in this order.`;
    element("explored").replaceChildren(...data.models.map(panel));
  };
  const step = (by) => {
    const rows = sequence();
    current = rows[Math.min(rows.length - 1, Math.max(0, rows.indexOf(current) + by))];
    show();
  };
  element("previous").addEventListener("click", () => step(-1));
  element("next").addEventListener("click", () => step(1));
  order.addEventListener("change", () => { [current] = sequence(); show(); });
  radius.addEventListener("change", show);
  row.addEventListener("change", () => {
    const wanted = row.value.trim();
    const same = data.numbers.find((number) => nameOf(number) === wanted);
    if (same !== undefined) current = same;
    else if (numbered && wanted !== "" && Number.isFinite(Number(wanted))) {
      // the nearest row that is in this file
      const away = (number) => Math.abs(Number(nameOf(number)) - Number(wanted));
      current = data.numbers.reduce((a, b) => (away(b) < away(a) ? b : a));
    }
    show();
    if (same === undefined) {
      const nearest = numbered && wanted !== "" ? `; the nearest that is, is row ${nameOf(current)}` : "";
      element("status").textContent = `Row ${wanted} is not in this file${nearest}.`;
    }
  });
  element("controls").hidden = false;
  show();
})();
