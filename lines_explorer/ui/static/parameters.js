/* What the chosen method does, and a control for each of its parameters, built from the table of methods. */
(() => {
  const LX = (window.LinesExplorer ??= {});

  /* Values that differ from their defaults, by name, in the order of their names. */
  LX.unusual = (method, values) => {
    const rows = method.parameters.filter(({ name, default: usual }) => name in values && values[name] !== usual);
    return Object.fromEntries(rows.map(({ name }) => [name, values[name]]).sort(([a], [b]) => (a < b ? -1 : 1)));
  };

  /* A typed number as the method takes it; null when it is none or out of range. */
  LX.parameterOf = ({ kind, low, high }, text) => {
    const value = text.trim() === "" ? NaN : LX.tidy(Number(text));
    const fits = value >= low && value <= high && (kind !== "whole" || Number.isInteger(value));
    return fits ? value : null;
  };

  /* `get` gives the method's name and its unusual values; `set` takes them changed. */
  LX.editParameters = (boot, { get, set }) => {
    let shown = null;
    const words = boot.method_texts;
    const change = (name, value) => {
      const [method, values] = get();
      set(method, LX.unusual(boot.methods[method], { ...values, [name]: value }));
    };
    const text = (name, words_) => { LX.find(name).textContent = words_; };
    LX.syncParameters = () => {
      const [name, values] = get(), method = boot.methods[name];
      if (!method || !LX.find("parameters")) return;
      if (shown !== name) {
        text("method-summary", method.summary);
        text("method-equation", method.equation);
        text("method-source", method.source);
        LX.find("parameters").replaceChildren(...method.parameters.map((row) => control(row, words, change)));
        shown = name;
      }
      for (const row of method.parameters) put(row, row.name in values ? values[row.name] : row.default);
      LX.find("defaults").hidden = Object.keys(values).length === 0;
      greyOut(boot.methods, words);
    };
  };

  /* Methods that this suite cannot have stay in the list, greyed out, and a sentence says why. */
  const greyOut = (methods, words) => {
    const refused = Object.entries(methods).filter(([, method]) => method.refused);
    for (const [name, { refused: why }] of refused) {
      const input = document.querySelector(`#lx-method input[value="${name}"]`);
      if (!input) continue;
      input.disabled = true;
      Object.assign(input.closest("label"), { title: why }).classList.add("lx-refused");
    }
    const place = LX.find("refused"), reasons = new Set(refused.map(([, method]) => method.refused));
    place.hidden = refused.length === 0;
    place.textContent = LX.fill(words.refused, { names: refused.map(([, m]) => m.title).join(", "), why: [...reasons].join(" ") });
  };

  const make = (tag, properties = {}, ...children) => {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children);
    return node;
  };
  const idOf = ({ name }) => `lx-set-${name}`;

  const control = (row, words, change) => {
    const hint = make("small", { id: `${idOf(row)}-hint`, textContent: LX.fill(words[row.kind], row) });
    const name = make("span", { textContent: row.name });
    if (row.kind === "switch") {
      const box = make("input", { type: "checkbox", id: idOf(row) });
      box.addEventListener("change", () => change(row.name, box.checked));
      return make("div", { className: "lx-parameter" }, make("label", {}, box, name), hint);
    }
    if (row.kind === "word") return wordControl(row, hint, change);
    const box = make("input", { type: "number", id: idOf(row), min: row.low, max: row.high, step: row.kind === "whole" ? 1 : "any" });
    box.setAttribute("aria-describedby", hint.id);
    box.addEventListener("change", () => change(row.name, LX.parameterOf(row, box.value)));
    const parts = [make("label", {}, name, box), hint];
    if (row.slider) parts.splice(1, 0, slider(row, box, change));
    return make("div", { className: "lx-parameter" }, ...parts);
  };

  const slider = (row, box, change) => {
    const bar = make("input", { type: "range", min: row.low, max: row.high, step: row.kind === "whole" ? 1 : (row.high - row.low) / 100 });
    bar.setAttribute("aria-label", row.name);
    bar.addEventListener("input", () => { box.value = LX.tidy(Number(bar.value)); fill(bar); });
    bar.addEventListener("change", () => change(row.name, LX.tidy(Number(bar.value))));
    return bar;
  };
  const fill = (bar) => bar.style.setProperty("--range_progress", `${(100 * (bar.value - bar.min)) / (bar.max - bar.min)}%`);

  const wordControl = (row, hint, change) => {
    const options = row.choices.map((choice) => {
      const input = make("input", { type: "radio", name: idOf(row), value: choice });
      input.addEventListener("change", () => change(row.name, choice));
      return make("label", {}, input, make("span", { textContent: choice }));
    });
    return make("fieldset", { className: "lx-parameter lx-words" }, make("legend", { textContent: row.name }), ...options, hint);
  };

  /* A control shows a value, but never overwrites what is being typed. */
  const put = (row, value) => {
    if (row.kind === "word") {
      for (const input of document.querySelectorAll(`input[name="${idOf(row)}"]`)) input.checked = input.value === value;
      return;
    }
    const box = document.getElementById(idOf(row));
    if (!box) return;
    if (row.kind === "switch") { box.checked = value; return; }
    if (value === null) return;
    if (box !== document.activeElement || Number(box.value) !== value) box.value = value;
    const bar = box.closest(".lx-parameter").querySelector('input[type="range"]');
    if (bar) { bar.value = value; fill(bar); }
  };
})();
