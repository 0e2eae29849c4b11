/* Buttons and keys around the figures: downloads, undo by key, enlarged figures, what a link hides. */
(() => {
  const LX = (window.LinesExplorer ??= {});

  /* Rows of `LX.rows` as CSV: shares between 0 and 1, empty where nothing is known. */
  LX.csv = (rows) => {
    const columns = {
      task: (r) => r.name, role: (r) => r.role, base: (r) => r.base?.value, expert: (r) => r.expert?.value,
      current: (r) => r.current?.value, low: (r) => r.current?.low, high: (r) => r.current?.high, n: (r) => r.current?.n,
      normalized: (r) => r.current?.normalized, denominator: (r) => r.current?.denominator,
      pinned: (r) => r.pinned?.value, difference: (r) => r.difference?.value, difference_low: (r) => r.difference?.low,
      difference_high: (r) => r.difference?.high, within_noise: (r) => r.difference?.within, judged_by: (r) => r.difference?.how,
      test: (r) => r.test?.value, test_low: (r) => r.test?.low, test_high: (r) => r.test?.high, test_n: (r) => r.test?.n,
      current_is: (r) => r.known,
    };
    const quoted = (value) => {
      const text = String(value ?? "");
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    const lines = [Object.keys(columns), ...rows.map((row) => Object.values(columns).map((read) => read(row)))];
    return `${lines.map((line) => line.map(quoted).join(",")).join("\r\n")}\r\n`;
  };

  /* Gives a text to the visitor as a file, made in the browser. */
  LX.saveText = (name, text, kind) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: kind }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };

  /* The merged model: the server writes a file, the browser fetches it. */
  LX.saveModel = async (button, ask, phrases, notice) => {
    const { textContent } = button;
    Object.assign(button, { disabled: true, textContent: phrases.merging });
    try {
      const { path, name, error } = await ask();
      notice(error ?? null);
      if (!error) Object.assign(document.createElement("a"), { href: `gradio_api/file=${path}`, download: name }).click();
    } catch {
      notice(phrases.offline);
    }
    Object.assign(button, { disabled: false, textContent });
  };

  /* Hides what a link asks to hide. */
  LX.hide = (names, hideable) => {
    const sheet = document.getElementById("lx-hide") ?? document.head.appendChild(document.createElement("style"));
    sheet.id = "lx-hide";
    const places = names.flatMap((name) => hideable[name]);
    sheet.textContent = places.length ? `${places.join(",")}{display:none !important}` : "";
  };

  /* Why the experts that are ticked cannot be merged so: too few, too many, or (of `sets`) none; "" when they can. */
  LX.unmergeable = ({ fewest, most, needs, sets, only }, tasks) => {
    if (tasks.length < fewest || tasks.length > (most ?? Infinity)) return needs;
    const same = (set) => set.length === tasks.length && set.every((task) => tasks.includes(task));
    return !sets || sets.some(same) ? "" : only;
  };

  /* Offers only the methods that can merge the experts that are ticked; the one chosen stays, and is refused in words. */
  LX.offerMethods = (bounds, tasks) => {
    for (const choice of document.querySelectorAll('#lx-method input[type="radio"]')) {
      const why = bounds[choice.value] ? LX.unmergeable(bounds[choice.value], tasks) : "";
      choice.disabled = why !== "" && !choice.checked;
      choice.closest("label").title = why;
    }
  };

  /* Of the runs to tick, those of one task. */
  LX.showRuns = (index) => {
    const sheet = document.getElementById("lx-runs-shown") ?? document.head.appendChild(document.createElement("style"));
    sheet.id = "lx-runs-shown";
    const text = `.lx-runs:not(#lx-runs-${index}){display:none !important}`;
    if (sheet.textContent !== text) sheet.textContent = text;
  };

  /* Modes that the suite has nothing for cannot be chosen; `lacking`: mode → why. */
  LX.greyModes = (lacking) => {
    for (const [mode, why] of Object.entries(lacking)) {
      const choice = document.querySelector(`#lx-mode input[value="${mode}"]`);
      if (!choice) return setTimeout(() => LX.greyModes(lacking), 50); // not drawn yet
      choice.disabled = true;
      choice.closest("label").title = why;
    }
  };

  /* Wires buttons and keys, for the whole document: panels come and go. `work` has a function for each. */
  LX.wireTools = (work) => {
    document.addEventListener("click", (event) => {
      const button = event.target.closest?.("button");
      if (!button) return;
      const { lx, lxSave, lxEnlarge, lxPreset, format } = button.dataset;
      if (lx) work.clicks[lx]?.(button);
      if (lxSave) LX.saveFigure(lxSave, format);
      if (lxEnlarge) work.enlarge(lxEnlarge);
      if (lxPreset) work.preset(lxPreset);
    });
    document.addEventListener("change", (event) => event.target.name === "lx-quantity" && work.quantity(event.target.value));
    document.addEventListener("keydown", (event) => {
      const key = event.key.toLowerCase();
      if (!(event.ctrlKey || event.metaKey) || event.altKey || !["z", "y"].includes(key)) return;
      if (event.target.matches?.('textarea, input[type="text"], input[type="number"]')) return;
      event.preventDefault();
      (key === "y" || event.shiftKey ? work.clicks.redo : work.clicks.undo)();
    });
  };

  LX.showTools = ({ canUndo, canRedo, canPin }) => {
    LX.find("undo").disabled = !canUndo;
    LX.find("redo").disabled = !canRedo;
    LX.find("pin").disabled = !canPin;
  };
})();
