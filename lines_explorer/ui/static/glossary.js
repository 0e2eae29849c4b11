/* The field's words, explained where they are hovered, focused or touched. Escape closes. */
(() => {
  const LX = (window.LinesExplorer ??= {});
  const PLACES = ".lx-lede, .lx-hint, .lx-split > p:first-child";
  let terms = [], pattern = null, bubble = null, shown = null, timer = 0;

  /* One expression for all terms, the longest words first; no part of a longer word. */
  LX.termPattern = (list) => {
    const words = list.flatMap((term) => term.words).sort((a, b) => b.length - a.length);
    const safe = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/ /g, "[ \\u00a0]"));
    return new RegExp(`(?<![\\p{L}\\p{N}])(${safe.join("|")})(?![\\p{L}\\p{N}])`, "giu");
  };
  const plain = (word) => word.replaceAll("\u00a0", " ").toLowerCase();

  /* A text in pieces: strings, and { key, text } for the first occurrence of each term. */
  LX.glossed = (text, list, expression) => {
    const pieces = [], seen = new Set();
    let from = 0;
    for (const found of text.matchAll(expression)) {
      const term = list.find(({ words }) => words.some((word) => word.toLowerCase() === plain(found[0])));
      if (seen.has(term.key)) continue;
      seen.add(term.key);
      pieces.push(text.slice(from, found.index), { key: term.key, text: found[0] });
      from = found.index + found[0].length;
    }
    return [...pieces, text.slice(from)].filter((piece) => piece !== "");
  };

  /* An element's text becomes `text`, with its terms as buttons. */
  LX.putWords = (element, text) => {
    element.replaceChildren(...LX.glossed(text, terms, pattern).map((piece) => (piece.key ? button(piece) : piece)));
  };
  const button = ({ key, text }) => {
    const made = document.createElement("button");
    Object.assign(made, { type: "button", className: "lx-term", textContent: text });
    made.dataset.lxTerm = key;
    made.setAttribute("aria-describedby", `lx-term-${key}`);
    return made;
  };
  const dress = () => {
    for (const place of document.querySelectorAll(PLACES)) {
      if (place.dataset.lxWords || place.childElementCount) continue;
      place.dataset.lxWords = "yes";
      LX.putWords(place, place.textContent);
    }
  };

  const show = (place) => {
    clearTimeout(timer);
    const term = terms.find(({ key }) => key === place.dataset.lxTerm);
    if (!term) return;
    shown = place;
    bubble.textContent = term.meaning;
    bubble.hidden = false;
    const box = place.getBoundingClientRect(), own = bubble.getBoundingClientRect();
    const above = box.top > own.height + 12;
    bubble.style.left = `${Math.max(8, Math.min(box.left, window.innerWidth - own.width - 8))}px`;
    bubble.style.top = `${above ? box.top - own.height - 6 : box.bottom + 6}px`;
  };
  const hide = () => {
    clearTimeout(timer);
    shown = null;
    bubble.hidden = true;
  };
  const soon = (work, wait) => { clearTimeout(timer); timer = setTimeout(work, wait); };

  LX.explainWords = (list) => {
    terms = list;
    pattern = LX.termPattern(list);
    bubble = document.createElement("div");
    Object.assign(bubble, { className: "lx-tip", id: "lx-tip", hidden: true });
    bubble.setAttribute("role", "tooltip");
    (document.querySelector(".gradio-container") ?? document.body).append(bubble);
    const at = (event) => event.target.closest?.(".lx-term");
    document.addEventListener("pointerover", (event) => {
      if (event.target === bubble) return clearTimeout(timer);
      if (event.pointerType === "mouse" && at(event)) soon(() => show(at(event)), 150);
    });
    document.addEventListener("pointerout", (event) => {
      if (event.pointerType === "mouse" && shown !== document.activeElement && (at(event) || event.target === bubble)) soon(hide, 250);
    });
    document.addEventListener("focusin", (event) => at(event) && show(at(event)));
    document.addEventListener("focusout", (event) => at(event) && hide());
    document.addEventListener("click", (event) => (at(event) ? show(at(event)) : event.target !== bubble && shown && hide()));
    document.addEventListener("keydown", (event) => event.key === "Escape" && shown && hide());
    window.addEventListener("scroll", () => shown && hide(), true);
    dress();
    for (const name of Object.keys(LX.panelNames)) LX.placed(name).then(dress);
  };
})();
