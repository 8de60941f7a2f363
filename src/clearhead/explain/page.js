"use strict";

// What is shown, how it is read from this file, and the words for it. Texts are set as text, never as markup.

const SIGNS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%:()*+-;.=,?@^_`{|}~";
const ALL = -1; // in place of a head: all of them
const NONE = -1;
const state = { part: 0, layer: 0, head: ALL, side: "from", token: NONE, kept: false, view: "lines" };
const NAMES = { self: "Self", cross: "Answer → text", encoder: "In the text", decoder: "In the answer" };

let data = JSON.parse(document.getElementById("data").textContent);
let bytes = new Uint8Array(0);

function here(id) {
  return document.getElementById(id);
}

function make(tag, given = {}, ...inside) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === false) continue;
    if (name.startsWith("--")) element.style.setProperty(name, value);
    else if (name === "does") element.addEventListener("click", value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const one of inside) element.append(one instanceof Node ? one : document.createTextNode(one));
  return element;
}

function refill(element, ...inside) {
  element.replaceChildren(...inside);
  return element;
}

// A token stands in its own direction of writing, whatever stands beside it.
function word(token) {
  return make("bdi", token[1] ? { class: "special" } : {}, token[0]);
}

function percent(share) {
  if (share >= 0.9995 && share < 1) return ">\u00a099.9\u00a0%";
  if (share > 0 && share < 0.0005) return "<\u00a00.1\u00a0%";
  return `${(100 * share).toFixed(1)}\u00a0%`;
}

function quoted(token) {
  return `\u2068${token[0]}\u2069`; // isolated, so that it does not turn the sentence round
}

// Weights

function decoded(text) {
  const value = new Uint8Array(128);
  for (let place = 0; place < SIGNS.length; place++) value[SIGNS.charCodeAt(place)] = place;
  const room = new DataView(new ArrayBuffer(4 * Math.ceil(text.length / 5)));
  for (let start = 0; start < text.length; start += 5) {
    let number = 0;
    for (let place = start; place < start + 5; place++)
      number = 85 * number + (place < text.length ? value[text.charCodeAt(place)] : 84);
    room.setUint32((start / 5) * 4, number);
  }
  return new Uint8Array(room.buffer, 0, Math.floor((text.length * 4) / 5));
}

async function inflated(text) {
  const stream = new Blob([decoded(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function open(given) {
  const found = await inflated(given.weights);
  data = given;
  bytes = found;
  let begin = 0;
  for (const part of data.parts) {
    part.begin = begin;
    begin += part.layers.length * part.heads.length * part.queries.length * part.keys.length;
  }
}

function part() {
  return data.parts[state.part];
}

// Where the weights of one head and one query begin.
function rowOf(one, layer, head, query) {
  return one.begin + ((layer * one.heads.length + head) * one.queries.length + query) * one.keys.length;
}

// The weight of one head, 0 to 1.
function weight(one, layer, head, query, key) {
  return bytes[rowOf(one, layer, head, query) + key] / 255;
}

// What is shown of a query and a key: the chosen head's weight, or the mean of all.
function shownWeight(query, key) {
  const one = part();
  if (state.head !== ALL) return weight(one, state.layer, state.head, query, key);
  let sum = 0;
  for (let head = 0; head < one.heads.length; head++) sum += weight(one, state.layer, head, query, key);
  return sum / one.heads.length;
}

function shownHeads() {
  return state.head === ALL ? [...part().heads.keys()] : [state.head];
}

// The words for what is shown

// The smallest weight that has a line where the lines of all tokens are drawn: many heads hide each other.
function leastDrawn() {
  return shownHeads().length > 1 ? 0.1 : 0.04;
}

function headName() {
  return state.head === ALL ? `mean of ${part().heads.length} heads` : `head ${part().heads[state.head]}`;
}

function strongest(token, side, most) {
  const one = part();
  const others = side === "from" ? one.keys : one.queries;
  const found = [];
  for (let place = 0; place < others.length; place++)
    found.push([side === "from" ? shownWeight(token, place) : shownWeight(place, token), place]);
  found.sort((a, b) => b[0] - a[0] || a[1] - b[1]);
  return found.slice(0, most).filter(([share]) => share > 0);
}

function sentence() {
  const one = part();
  const where = `Layer ${one.layers[state.layer]}, ${headName()}`;
  if (state.token === NONE) {
    const lines = state.view === "lines" ? `; lines of ${100 * leastDrawn()}\u00a0% and more` : "";
    return `${where}: ${one.queries.length} tokens look at ${one.keys.length}${lines}.`;
  }
  const [mine, others] = state.side === "from" ? [one.queries, one.keys] : [one.keys, one.queries];
  const list = strongest(state.token, state.side, 5)
    .map(([share, place]) => `${quoted(others[place])} ${percent(share)}`)
    .join(", ");
  const does = state.side === "from" ? "looks at" : "is looked at by";
  return `${where}: ${quoted(mine[state.token])} ${does} ${list || "nothing"}.`;
}

// Sizes and colours of a canvas, as the page's style has them now.

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function headColour(head) {
  return colour(`--head-${head % 8}`);
}

function sized(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}
