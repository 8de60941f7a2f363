// Weights as a heat map: a row for each token that looks, a column for each that is looked at. Only what is
// in sight is drawn, so that a thousand tokens are as quick as ten.

const SMALL = 16;
const LARGE = 30;
const hover = { query: NONE, key: NONE };

function measures() {
  const one = part();
  const box = here("matrix");
  const narrow = box.clientWidth < 560;
  const left = narrow ? 88 : 132;
  const above = narrow ? 84 : 104;
  const cell = Math.max(SMALL, Math.min(LARGE, Math.floor((box.clientWidth - left) / one.keys.length)));
  const [width, height] = [left + cell * one.keys.length, above + cell * one.queries.length];
  return { left, above, cell, width, height };
}

function mixed(from, to, share) {
  const parts = (text) => text.split(" ").map(Number);
  const [a, b] = [parts(from), parts(to)];
  return `rgb(${a.map((start, place) => Math.round(start + (b[place] - start) * share)).join(" ")})`;
}

function shades() {
  const [low, middle, high] = ["--heat-0", "--heat-1", "--heat-2"].map(colour);
  return Array.from({ length: 256 }, (_, step) => {
    const share = Math.sqrt(step / 255);
    return share < 0.5 ? mixed(low, middle, 2 * share) : mixed(middle, high, 2 * share - 1);
  });
}

function drawMatrix() {
  const one = part();
  const box = here("matrix");
  const { left, above, cell, width, height } = measures();
  here("room").style.width = `${width}px`;
  here("room").style.height = `${height}px`;
  const inside = { width: Math.min(width, box.clientWidth), height: Math.min(height, box.clientHeight) };
  const pen = sized(here("cells"), inside.width, inside.height);
  const [x, y] = [box.scrollLeft, box.scrollTop];
  const shade = shades();
  const rows = [Math.floor(y / cell), Math.min(one.queries.length, Math.ceil((y + inside.height) / cell))];
  const columns = [Math.floor(x / cell), Math.min(one.keys.length, Math.ceil((x + inside.width) / cell))];
  pen.save();
  pen.beginPath();
  pen.rect(left, above, inside.width, inside.height);
  pen.clip();
  const gap = cell > 18 ? 1 : 0.5;
  for (let query = rows[0]; query < rows[1]; query++)
    for (let key = columns[0]; key < columns[1]; key++) {
      pen.fillStyle = shade[Math.round(255 * shownWeight(query, key))];
      pen.fillRect(left + key * cell - x, above + query * cell - y, cell - gap, cell - gap);
    }
  frame(pen, { left: left - x, above: above - y, cell });
  pen.restore();
  labels(pen, { left, above, cell, x, y, rows, columns, inside });
  here("cells").setAttribute("aria-label", `${one.queries.length} by ${one.keys.length} weights`);
}

function frame(pen, { left, above, cell }) {
  const one = part();
  pen.strokeStyle = colour("--ink");
  pen.lineWidth = 1.5;
  if (state.token !== NONE && state.side === "from")
    pen.strokeRect(left - 1, above + state.token * cell - 1, cell * one.keys.length + 1, cell + 1);
  if (state.token !== NONE && state.side === "to")
    pen.strokeRect(left + state.token * cell - 1, above - 1, cell + 1, cell * one.queries.length + 1);
  if (hover.query !== NONE)
    pen.strokeRect(left + hover.key * cell, above + hover.query * cell, cell - 1, cell - 1);
}

function labels(pen, { left, above, cell, x, y, rows, columns, inside }) {
  const one = part();
  const size = Math.min(13, cell - 3);
  const font = getComputedStyle(document.body).fontFamily;
  const write = (token, strong, clip, place, turned) => {
    pen.save();
    pen.beginPath();
    pen.rect(...clip);
    pen.clip();
    pen.translate(...place);
    if (turned) pen.rotate(-Math.PI / 2);
    pen.font = `${strong ? 650 : 400} ${size}px ${font}`;
    pen.fillStyle = colour(token[1] && !strong ? "--quiet" : "--ink");
    pen.textBaseline = "middle";
    pen.textAlign = turned ? "left" : "right";
    pen.fillText(token[0], 0, 0);
    pen.restore();
  };
  for (let query = rows[0]; query < rows[1]; query++) {
    const middle = above + query * cell - y + cell / 2;
    const strong = query === hover.query || (state.side === "from" && query === state.token);
    if (middle > above - 2)
      write(one.queries[query], strong, [0, above, left - 5, inside.height], [left - 8, middle], false);
  }
  for (let key = columns[0]; key < columns[1]; key++) {
    const middle = left + key * cell - x + cell / 2;
    const strong = key === hover.key || (state.side === "to" && key === state.token);
    if (middle > left - 2)
      write(one.keys[key], strong, [left, 0, inside.width, above - 4], [middle, above - 8], true);
  }
}

function cellOf(event) {
  const { left, above, cell } = measures();
  const box = here("matrix");
  const edge = box.getBoundingClientRect();
  const across = event.clientX - edge.left - box.clientLeft;
  const down = event.clientY - edge.top - box.clientTop;
  const key = Math.floor((across - left + box.scrollLeft) / cell);
  const query = Math.floor((down - above + box.scrollTop) / cell);
  const inside = query >= 0 && key >= 0 && query < part().queries.length && key < part().keys.length;
  return inside && across >= left && down >= above ? { query, key } : { query: NONE, key: NONE };
}

function listenMatrix() {
  const box = here("matrix");
  const point = (event) => {
    Object.assign(hover, cellOf(event));
    drawMatrix();
    const one = part();
    here("said").textContent =
      hover.query === NONE
        ? sentence()
        : `Layer ${one.layers[state.layer]}, ${headName()}: ${quoted(one.queries[hover.query])} looks at ` +
          `${quoted(one.keys[hover.key])}: ${shownWeight(hover.query, hover.key).toFixed(3)}`;
  };
  box.addEventListener("pointermove", point);
  box.addEventListener("pointerleave", () => {
    Object.assign(hover, { query: NONE, key: NONE });
    if (!box.hidden) draw();
  });
  box.addEventListener("click", (event) => {
    const found = cellOf(event);
    if (found.query === NONE) return;
    if (state.side === "from" && state.token === found.query) letGo();
    else Object.assign(state, { side: "from", token: found.query, kept: true });
    draw();
    point(event);
  });
  box.addEventListener("scroll", () => !box.hidden && drawMatrix());
}
