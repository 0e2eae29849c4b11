/* The α×β surface of the page's family: asked for when the page has nothing better to do, kept, and drawn. */
(() => {
  const LX = (window.LinesExplorer ??= {});
  const WAIT_MS = 300, MOST = 12;

  /* `S`: the page's state; `look` asks the server for the surface of the view that is shown. */
  LX.surfaceOf = ({ S, words, look }) => {
    let timer = 0;
    const draw = (surface) => {
      const { missing } = surface;
      for (const choice of document.querySelectorAll('input[name="lx-quantity"]')) choice.checked = choice.value === S.page.quantity;
      LX.cells(missing ? LX.fill(words.missing, { missing }) : null);
      return LX.drawSurface(surface.figures[S.page.quantity]);
    };
    const take = async (surface) => {
      S.surfaces.delete(surface.key);
      S.surfaces.set(surface.key, surface);
      if (S.surfaces.size > MOST) S.surfaces.delete(S.surfaces.keys().next().value);
      if (surface.key !== S.family?.key) return;
      await draw(surface);
      await LX.drawExtras({ front: surface.front });
      LX.redraw();
    };
    const want = () => {
      clearTimeout(timer);
      timer = setTimeout(async () => {
        const answer = await look().catch(() => null);
        if (answer?.key) take(answer);
      }, WAIT_MS);
    };
    return { draw, take, want };
  };
})();
