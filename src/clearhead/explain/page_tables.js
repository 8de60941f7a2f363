// What the model answers, and what each of its layers would.

const CHUNK = 200; // tokens whose rows are made at a time
let rowsMade = 0;

// Characters as Python counts them, in which places in a text are told.
function cut(text, start, end) {
  return Array.from(text).slice(start, end).join("");
}

function bars(rows, numbers) {
  const made = rows.map(([name, share]) =>
    make(
      "li",
      { "--share": numbers ? "0" : String(Math.max(0, Math.min(1, share))) },
      make("bdi", {}, name.trim() || "␣"),
      make("b", {}, numbers ? share.toPrecision(4) : percent(share)),
    ),
  );
  return make("ol", { class: "bars" }, ...made);
}

function quotes(look) {
  return look.texts.map((text) => make("p", { class: "text quoted", dir: "auto" }, text));
}

function answersInto(place, look) {
  const inside = [];
  if (look.answer !== null) inside.push(...translated(look));
  else if (look.kind === "answer") inside.push(...located(look));
  else if (look.kind === "tag") inside.push(tagged(look));
  else {
    inside.push(...quotes(look));
    for (const [heading, rows] of look.answers) {
      inside.push(make("h3", {}, heading[0].toUpperCase() + heading.slice(1)));
      inside.push(bars(rows, look.numbers));
    }
    if (!look.answers.length)
      inside.push(
        make(
          "p",
          { class: "intro" },
          look.kind === "vector"
            ? "The model has no labels: its answer is a vector."
            : "The text has no mask, so nothing is asked; write [MASK] for a word.",
        ),
      );
  }
  refill(place, ...inside);
}

// A question, its context with the best answer marked, and all candidates.
function located(look) {
  const [[, rows]] = look.answers;
  const [question, context] = look.texts;
  const best = rows.length && rows[0][2] !== null ? rows[0] : null;
  const text = make("p", { class: "text quoted", dir: "auto" });
  if (best) {
    const [, , start, end] = best;
    text.append(cut(context, 0, start), make("mark", {}, cut(context, start, end)), cut(context, end));
  } else text.append(context);
  return [make("p", { class: "text" }, make("b", { dir: "auto" }, question)), text, bars(rows, false)];
}

// The words of a text, each with its tag.
function tagged(look) {
  const text = look.texts[0];
  const place = make("p", { class: "text quoted tagged", dir: "auto" });
  let done = 0;
  for (const [, [[tag, share, start, end]]] of look.answers) {
    place.append(cut(text, done, start));
    const written = cut(text, start, end);
    if (tag === "O") place.append(written);
    else place.append(make("mark", {}, written, make("small", {}, ` ${tag} ${percent(share)}`)));
    done = end;
  }
  place.append(cut(text, done));
  return place;
}

// A translator's answer, and for each of its tokens what it takes from the text: the mean of all heads.
function translated(look) {
  const one = (look.parts || []).find((each) => each.kind === "cross");
  const answer = make("p", { class: "text answer", dir: "auto" }, look.answer || "(nothing)");
  if (!one || look !== data) return [...quotes(look), answer];
  const said = make("p", { class: "quiet", role: "status" });
  const source = one.keys.map((token) => make("span", { class: "piece" }, word(token)));
  const mean = (query, key) => {
    let sum = 0;
    for (let layer = 0; layer < one.layers.length; layer++)
      for (let head = 0; head < one.heads.length; head++) sum += weight(one, layer, head, query, key);
    return sum / (one.layers.length * one.heads.length);
  };
  const buttons = one.queries.map((token, query) =>
    make("button", { type: "button", class: "piece", does: () => choose(query) }, word(token)),
  );
  const choose = (query) => {
    const shares = one.keys.map((_, key) => mean(query, key));
    const most = Math.max(...shares, 1e-9);
    shares.forEach((share, key) => source[key].style.setProperty("--share", (share / most).toFixed(3)));
    buttons.forEach((button, place) => button.setAttribute("aria-pressed", String(place === query)));
    const best = [...shares.keys()].sort((a, b) => shares[b] - shares[a]).slice(0, 4);
    const list = best.map((key) => `${quoted(one.keys[key])} ${percent(shares[key])}`).join(", ");
    said.textContent = `Where ${quoted(one.queries[query])} is read, the model looks at ${list}.`;
  };
  buttons.forEach((button, query) => {
    button.addEventListener("pointerenter", (event) => event.pointerType !== "touch" && choose(query));
    button.addEventListener("focus", () => button.matches(":focus-visible") && choose(query));
  });
  choose(Math.min(1, one.queries.length - 1));
  return [
    answer,
    make("h3", {}, "Alignment"),
    make(
      "p",
      { class: "intro" },
      "Choose a token of the answer (above): what is looked at in the text (below) where it is read is ",
      "shaded, by the mean of the weights of all layers and heads that are shown.",
    ),
    make("p", { class: "pieces", dir: "auto" }, ...buttons),
    make("p", { class: "pieces", dir: "auto" }, ...source),
    said,
  ];
}

// The lens: a row for each token, a column for each layer.

const INTRO = {
  vector: "How like the vector after each layer is to the last one: the cosine.",
  label: "The label that the model's head would give, were each layer the last.",
  tag: "The tag that the model's head would give each token, were each layer the last.",
  answer: "Where the answer would begin and end, were each layer the last.",
  "masked token": "What the model's head would put at each token, were each layer the last.",
  "next token": "What would come after each token, were each layer the last.",
};

function guessOf(guess) {
  const name = data.lens.names[guess[0]];
  if (data.kind === "vector") return [name, guess[1].toFixed(3)];
  return [name, data.numbers ? guess[1].toPrecision(4) : percent(guess[1])];
}

// Whether a layer answers with a number alone.
function only() {
  return data.kind === "vector" || data.numbers;
}

function lensInto() {
  here("lens-intro").textContent =
    `${INTRO[data.kind]} Layer 0 is the stream before the first block. ` +
    (only() ? "" : "Shades say how sure; choose a cell for what else is likely.");
  here("guessed").textContent = "";
  const columns = data.lens.layers.map((_, layer) => make("th", { scope: "col" }, String(layer)));
  const table = make(
    "table",
    {},
    make("caption", { class: "unseen" }, "What each layer would answer, by token"),
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Layer"), ...columns)),
    make("tbody", { id: "guesses" }),
  );
  refill(here("lens"), table);
  rowsMade = 0;
  moreRows();
}

function moreRows() {
  const names = lensTokens();
  const until = Math.min(names.length, rowsMade + CHUNK);
  for (; rowsMade < until; rowsMade++) here("guesses").append(lensRow(names[rowsMade], rowsMade));
  here("more").hidden = rowsMade === names.length;
  here("more").textContent = `Show more (${names.length - rowsMade} tokens are left)`;
}

// Where the lens has a row for each token of the attention above, their words; else its own names.
function lensTokens() {
  const one = data.parts.find((each) => each.kind !== "encoder");
  const same = ["next token", "masked token", "tag"].includes(data.kind) && one;
  return same ? one.queries : data.lens.tokens.map((name) => [name, 0, 0]);
}

function lensRow(name, row) {
  const cells = data.lens.layers.map((each, layer) => {
    const [text, share] = guessOf(each[row][0]);
    const told = data.numbers ? 0 : each[row][0][1];
    return make(
      "td",
      { "--share": String(Math.max(0, Math.min(1, told))) },
      make(
        "button",
        { type: "button", tabindex: "-1", does: (event) => guessesAt(row, layer, event.currentTarget) },
        ...(only() ? [] : [make("bdi", {}, text)]),
        make("small", {}, share),
      ),
    );
  });
  const does = (event) => guessesAt(row, NONE, event.currentTarget);
  const all = make("button", { type: "button", does }, word(name));
  return make("tr", {}, make("th", { scope: "row" }, all), ...cells);
}

// All candidates of one cell or, of a whole row, the best of each layer, in words.
function guessesAt(row, layer, button) {
  const say = (guesses) =>
    guesses.map((guess) => guessOf(guess)).map(([text, share]) => `\u2068${text}\u2069 ${share}`);
  const token = quoted(lensTokens()[row]);
  const told =
    layer === NONE
      ? data.lens.layers.map((each, place) => `layer ${place}: ${say(each[row].slice(0, 1))}`).join("; ")
      : `layer ${layer}: ${say(data.lens.layers[layer][row]).join(", ")}`;
  here("guessed").textContent = `${token}, ${told}`;
  for (const other of here("lens").querySelectorAll("[aria-pressed]")) other.removeAttribute("aria-pressed");
  button.setAttribute("aria-pressed", "true");
}
