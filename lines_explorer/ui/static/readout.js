/* The page's words and numbers: summary, notice, progress, formula, command line, table. Text only, never markup. */
(() => {
  const LX = (window.LinesExplorer ??= {});
  const find = (name) => document.querySelector(`[data-lx="${name}"]`);
  const put = (name, text) => {
    const place = find(name);
    if (place && place.textContent !== text) place.textContent = text;
  };
  const pct = (share, digits = 1) => (Number.isFinite(share) ? `${(100 * share).toFixed(digits)} %` : "–");
  const short = (x) => String(Math.round(x * 1000) / 1000).replace("-", "−");

  LX.fill = (text, values) => text.replace(/\{(\w+)\}/g, (all, key) => values[key] ?? all);
  /* The sentence keeps the height of the longest one so far, so that the figures stay where they are. */
  let reserved = 0, width = 0;
  LX.say = (text, state) => {
    const place = find("sentence");
    put("sentence", text);
    place.dataset.state = state;
    if (width !== place.offsetWidth) { [width, reserved] = [place.offsetWidth, 0]; place.style.minHeight = ""; }
    if (place.offsetHeight > reserved) place.style.minHeight = `${(reserved = place.offsetHeight)}px`;
  };
  LX.state = (text) => put("state", text);
  const warn = (name) => (text) => {
    put(name, text ?? "");
    find(name).hidden = !text;
  };
  LX.notice = warn("notice");
  LX.trouble = warn("trouble");
  LX.command = (text) => put("command", text);

  LX.progress = (done, total, text) => {
    const bar = find("progress");
    bar.hidden = done === null;
    if (done === null) return;
    bar.querySelector("progress").max = Math.max(1, total);
    bar.querySelector("progress").value = done;
    bar.querySelector("span").textContent = text;
  };

  LX.setting = (view, curve) => {
    if (view.schedule === "free") return `λ = ${view.factors.map(short).join(", ")}`;
    return view.schedule === "constant" ? `λ = ${short(curve[0])}` : `α = ${short(curve[0])}, β = ${short(curve[1])}`;
  };

  /* λ⁽ˡ⁾ with the current numbers. */
  LX.formula = (view, curve, blocks) => {
    const place = document.querySelector("#lx-depth-panel .lx-formula");
    if (!place) return;
    place.hidden = false;
    place.textContent = formulaOf(view, curve, blocks);
  };
  const formulaOf = (view, curve, blocks) => {
    if (view.schedule === "free") return `λ as drawn; outside the blocks ${short(view.rest)}`;
    const [alpha, beta] = curve, sign = beta < 0 ? "−" : "+", size = short(Math.abs(beta));
    if (view.schedule === "constant") return `λ = ${short(alpha)} in every block and outside them`;
    return `λ⁽ˡ⁾ = α + β·(l−1)/(L−1) = ${short(alpha)} ${sign} ${size}·(l−1)/${blocks - 1}; outside the blocks α = ${short(alpha)}`;
  };

  const estimated = (stat) => Number.isFinite(stat?.total) && stat.n < stat.total;
  const ends = (stat) => (stat ? `${estimated(stat) ? "≈ " : ""}${pct(stat.value)} [${pct(stat.low)} – ${pct(stat.high)}]` : "–");
  const pictures = (stat) => (!stat ? "–" : estimated(stat) ? `estimate, ${stat.n} of ${stat.total}` : String(stat.n));
  const points = (share) => `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(1)}`;
  const change = (found) => {
    if (!found || !Number.isFinite(found.value)) return "–";
    const range = found.low === null ? "" : ` [${points(found.low)} … ${points(found.high)}]`;
    return points(found.value) + range + (found.within ? " · within noise" : "");
  };

  /* What is known of every task and of both means, one object a row. `state`: point, test, pinned, family, titles. */
  LX.rows = ({ point, test, pinned, family, titles }) => {
    const rows = [];
    const known = !point ? "" : point.estimate ? "estimated" : point.exact ? "evaluated" : "interpolated";
    const expertOf = (task) => (family.expert ? family.expert.tasks[task] : family.experts[task]);
    const words = LX.modes[family.mode];
    for (const [index, role, tasks] of [[0, "target", family.targets], [1, "control", family.controls]]) {
      for (const task of tasks)
        rows.push({
          name: titles[task], task, role: words.roles[index], known, base: family.base?.tasks[task], expert: expertOf(task), current: point?.tasks[task],
          pinned: pinned?.point?.tasks[task], difference: pinned?.differences?.tasks[task], test: test?.tasks[task],
        });
      if (tasks.length < 2) continue;
      const expert = family.expert ? family.expert[role] : role === "target" ? family.ceiling : null;
      rows.push({
        name: words.means[index], task: "", role: words.roles[index], known, base: family.base?.[role], expert, current: point?.[role],
        pinned: pinned?.point?.[role], difference: pinned?.differences?.[role], test: test?.[role],
      });
    }
    return rows;
  };

  const cell = (row, text, kind = "td") => {
    const made = document.createElement(kind);
    made.textContent = text;
    row.append(made);
    return made;
  };
  const drawnRow = ({ name, role, base, expert, current, pinned, difference, test }) => {
    const row = document.createElement("tr");
    cell(row, name, "th").scope = "row";
    const by = current?.reference ? ` of the ${current.reference === "expert" ? "expert’s" : "base’s"} ${pct(current.denominator)}` : "";
    const texts = [role, base ? pct(base.value) : "–", expert ? pct(expert.value) : "–", ends(current),
      current ? `${pct(current.normalized)}${by}` : "–", pictures(current)];
    for (const text of texts) cell(row, text);
    cell(row, ends(pinned)).classList.add("lx-a");
    const changed = cell(row, change(difference));
    changed.classList.add("lx-a");
    changed.title = difference?.said ?? "";
    cell(row, test ? `${ends(test)}, n = ${test.n}` : "–").classList.add("lx-test");
    return row;
  };

  /* The same numbers as the figures, per task and in the mean. */
  LX.table = (state) => {
    const body = find("table");
    if (!body || !find("details").open) return;
    body.replaceChildren(...LX.rows(state).map(drawnRow));
    body.closest("table").classList.toggle("lx-with-test", Boolean(state.test));
    body.closest("table").classList.toggle("lx-with-a", Boolean(state.pinned));
  };

  LX.testResult = (text) => put("test", text);
  LX.testText = (point, mode) => {
    const [target, other] = LX.modes[mode].roles;
    const control = point.control ? `, ${other} ${ends(point.control)}, n = ${point.control.n}` : "";
    return `Test: ${target} ${ends(point.target)}, n = ${point.target.n}${control}.`;
  };
  const shown = (name) => (text) => {
    if (find(name)) find(name).hidden = !text;
    put(`${name}-text`, text ?? "");
  };
  LX.missing = shown("missing");
  LX.cells = shown("cells");
  LX.pinnedAs = shown("pinned");
  LX.problems = (texts) => {
    put("problems", texts.join(" "));
    find("problems").hidden = !texts.length;
  };

  LX.copy = async (button, text, done) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const box = document.createElement("textarea");
      box.value = text;
      document.body.append(box);
      box.select();
      document.execCommand("copy");
      box.remove();
    }
    const before = (button.dataset.word ??= button.textContent);
    button.textContent = done;
    setTimeout(() => (button.textContent = before), 1200);
  };
  LX.find = find;
})();
