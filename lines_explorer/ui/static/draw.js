/* The drawing view: a canvas, and what the models take the drawing for. Pixels leave as numbers. */
(() => {
  const LX = (window.LinesExplorer ??= {});
  const SIDE = 256, BRUSH = 22, LATE_MS = 60, MOST_STROKES = 20;
  const roles = ["base", "expert", "current", "pinned"];
  let root, server, boot, canvas, pen, seen, last = null, timer = 0, busy = false, wanted = false, number = 0;
  let task = null, marked = false;
  const strokes = [];
  const find = (name) => root.querySelector(`[data-lx="${name}"]`);
  const button = (name) => root.querySelector(`[data-draw="${name}"]`);
  const chosen = (name) => root.querySelector(`input[name="lx-${name}"]:checked`).value;
  const pct = (share) => `${(100 * share).toFixed(share < 0.0995 && share >= 0.0005 ? 1 : 0)} %`;

  LX.startDrawing = (element, props, serverFunctions) => {
    [server, boot] = [serverFunctions, JSON.parse(props.boot)];
    root = element.querySelector("details");
    canvas = find("canvas");
    pen = canvas.getContext("2d", { willReadFrequently: true });
    seen = find("draw-seen").getContext("2d", { willReadFrequently: true });
    seen.imageSmoothingQuality = "high";
    find("draw-task").replaceChildren(...Object.entries(boot.titles).map(([value, text]) => Object.assign(document.createElement("option"), { value, text })));
    find("draw-task").addEventListener("change", (event) => { task = event.target.value; soon(); });
    root.addEventListener("toggle", () => { follow(); soon(); });
    root.addEventListener("click", (event) => press(event.target.closest("button")?.dataset.draw ?? ""));
    root.addEventListener("change", (event) => event.target.name === "lx-ground" && clear());
    canvas.addEventListener("pointerdown", down);
    canvas.addEventListener("pointermove", move);
    for (const name of ["pointerup", "pointercancel", "lostpointercapture"]) canvas.addEventListener(name, () => (last = null));
    document.addEventListener("lx:moved", () => { follow(); soon(); });
    clear();
  };

  /* Until a visitor chooses otherwise the target's head classifies. */
  const follow = () => {
    const { view } = LX.now();
    const target = view.mode === "many" && view.tasks.length ? view.tasks[0] : view.target;
    find("draw-task").value = task ?? target;
  };

  const clear = () => {
    pen.fillStyle = boot.grounds[chosen("ground")];
    pen.fillRect(0, 0, SIDE, SIDE);
    strokes.length = 0;
    marked = false;
    changed();
  };
  const remember = () => {
    strokes.push([pen.getImageData(0, 0, SIDE, SIDE), marked]);
    if (strokes.length > MOST_STROKES) strokes.shift();
    marked = true;
  };
  const changed = () => {
    const size = boot.side;
    seen.drawImage(canvas, 0, 0, size, size);
    button("clear").disabled = !marked && !strokes.length;
    button("undo").disabled = !strokes.length;
    soon();
  };

  const style = () => Object.assign(pen, { strokeStyle: boot.inks[chosen("ink")], fillStyle: boot.inks[chosen("ink")], lineWidth: BRUSH, lineCap: "round", lineJoin: "round" });
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [((event.clientX - box.left) * SIDE) / box.width, ((event.clientY - box.top) * SIDE) / box.height];
  };
  const line = (points, close) => {
    pen.beginPath();
    points.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    if (close) pen.closePath();
    pen.stroke();
  };
  const down = (event) => {
    if (event.button !== 0) return;
    event.preventDefault();
    canvas.setPointerCapture(event.pointerId);
    remember();
    last = at(event);
    style();
    line([last, last]);
    changed();
  };
  const move = (event) => {
    if (!last) return;
    const here = at(event);
    line([last, here]);
    last = here;
    changed();
  };

  const shapes = {
    one: () => line([[128, 48], [128, 208]]),
    seven: () => line([[72, 56], [184, 56], [112, 208]]),
    ring: () => { pen.beginPath(); pen.ellipse(128, 128, 62, 78, 0, 0, 2 * Math.PI); pen.stroke(); },
    cross: () => { line([[64, 64], [192, 192]]); line([[192, 64], [64, 192]]); },
    triangle: () => { line([[128, 60], [200, 192], [56, 192]], true); pen.fill(); },
    stripes: () => ["red", "white", "blue"].forEach((ink, i) => { pen.fillStyle = boot.inks[ink]; pen.fillRect(16, 52 + 51 * i, 224, 51); }),
  };
  const press = (name) => {
    if (name === "clear") return clear();
    if (name === "undo") {
      const [image, before] = strokes.pop() ?? [];
      if (image) { pen.putImageData(image, 0, 0); marked = before; changed(); }
    }
    if (!shapes[name]) return;
    clear();
    remember();
    style();
    shapes[name]();
    changed();
  };

  /* One question on its way, the newest drawing and setting win. */
  const soon = () => {
    clearTimeout(timer);
    if (!root.open) return;
    if (!marked) return empty();
    timer = setTimeout(() => { wanted = true; pump(); }, LATE_MS);
  };
  const empty = () => {
    wanted = false;
    number += 1;
    find("draw-said").textContent = boot.words.empty;
    find("draw-shares").hidden = find("draw-left").hidden = true;
    notice();
  };
  const notice = (text) => {
    find("draw-notice").textContent = text ?? "";
    find("draw-notice").hidden = !text;
  };
  const numbers = () => {
    const { data } = seen.getImageData(0, 0, boot.side, boot.side), size = boot.side ** 2;
    const grey = Array.from({ length: size }).every((_, i) => data[4 * i] === data[4 * i + 1] && data[4 * i] === data[4 * i + 2]);
    const step = grey ? 1 : 3;
    return Array.from({ length: step * size }, (_, i) => data[4 * Math.floor(i / step) + (i % step)]);
  };
  const pump = async () => {
    if (busy) return;
    busy = true;
    while (wanted) {
      wanted = false;
      const { view, page, tab } = LX.now();
      if (!LX.complete(view)) break;
      const sent = (number += 1);
      try {
        const answer = await server.classify({ view, page, tab, number, task, pixels: numbers() });
        if (sent === number) { notice(answer.error); if (answer.classes) show(answer); }
      } catch {
        if (sent === number) notice(boot.words.offline);
      }
    }
    busy = false;
  };

  const show = ({ classes, best, left, task: head }) => {
    const table = find("draw-shares"), body = table.tBodies[0];
    table.hidden = false;
    find("draw-task").value = head;
    const names = classes.map((one) => one.label).join("\n");
    if (body.dataset.names !== names) body.replaceChildren(...classes.map(row));
    body.dataset.names = names;
    for (const role of roles) table.classList.toggle(`lx-no-${role}`, !(role in best));
    classes.forEach(({ label, shares }, i) =>
      roles.forEach((role, j) => {
        const cell = body.rows[i].cells[j + 1], share = shares[role];
        cell.classList.toggle("lx-best", best[role] === label);
        cell.firstChild.style.setProperty("--share", share ?? 0);
        cell.lastChild.textContent = share === undefined ? "" : pct(share);
      }));
    const said = roles.filter((role) => role in best).map((role) =>
      LX.fill(boot.words.said, { who: boot.words[role], label: best[role], share: pct(classes.find((one) => one.label === best[role]).shares[role]) }));
    if (!wanted) find("draw-said").textContent = said.join(" · "); // told to a screen reader when it holds still
    find("draw-left").hidden = !left;
    find("draw-left").textContent = LX.fill(boot.words.most, { left });
  };
  const row = ({ label }) => {
    const line = document.createElement("tr"), head = document.createElement("th");
    Object.assign(head, { scope: "row", textContent: label });
    line.append(head, ...roles.map((role) => {
      const cell = document.createElement("td");
      cell.dataset.role = role;
      cell.append(document.createElement("i"), document.createElement("span"));
      return cell;
    }));
    return line;
  };
})();
