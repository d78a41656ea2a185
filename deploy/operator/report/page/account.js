// What a check without eyes can read from the page, as data attributes of its root: how much it shows, and what is drawn
// wrong. Sent the event "account" it looks again.
function isBlank({ canvas }) {
  if (!canvas.width || !canvas.height) return true;
  const copy = element("canvas", { width: 160, height: 100 }).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0, 160, 100);
  return !copy.getImageData(0, 0, 160, 100).data.some((value) => value !== 0);
}

// A chart whose picture sticks out of its figure, is too small to read, or is shown in other proportions than it was drawn
// in.
function isClipped({ canvas }) {
  const shown = canvas.getBoundingClientRect(), figure = canvas.closest("figure").getBoundingClientRect();
  const stretch = (shown.width / shown.height) / (canvas.width / canvas.height);
  return shown.width < 200 || shown.height < 150 || shown.left < figure.left - 1 || shown.right > figure.right + 1 ||
    shown.top < figure.top - 1 || shown.bottom > figure.bottom + 1 || Math.abs(stretch - 1) > 0.05;
}

// The rectangles of every line of text that can be seen, with the text node they belong to.
function textLines() {
  const walker = document.createTreeWalker(document.querySelector("body"), NodeFilter.SHOW_TEXT);
  const lines = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest("script, style, noscript")) continue;
    if (parent.closest("details:not([open])") && !parent.closest("summary")) continue;
    const hidden = parent.closest("thead");  // Tables that are stacked keep their heads for screen readers alone.
    if (hidden && getComputedStyle(hidden).clipPath !== "none") continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) {
      if (box.width > 0 && box.height > 0) lines.push({ node, parent, box });
    }
  }
  return lines;
}

// Pairs of texts that cover each other by more than the space around letters.
function overlaps(lines) {
  const found = [];
  const sorted = [...lines].sort((a, b) => a.box.top - b.box.top);
  sorted.forEach((a, i) => {
    for (let j = i + 1; j < sorted.length && sorted[j].box.top < a.box.bottom; ++j) {
      const b = sorted[j];
      const width = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
      const height = Math.min(a.box.bottom, b.box.bottom) - b.box.top;
      if (a.node !== b.node && width > 1 && height > 0.35 * Math.min(a.box.height, b.box.height)) found.push([a, b]);
    }
  });
  return found;
}

// Texts that stick out of the panel they stand in, or whose panel would have to be scrolled to read them.
function spilled(lines) {
  return lines.filter(({ parent, box }) => {
    const panelOfText = parent.closest(".card, .panel, figure, .banner");
    if (!panelOfText) return box.right > document.documentElement.clientWidth + 1;
    const around = panelOfText.getBoundingClientRect();
    return box.left < around.left - 1 || box.right > around.right + 1 || box.bottom > around.bottom + 1;
  });
}

function account() {
  const root = document.documentElement;
  const lines = textLines();
  const covered = overlaps(lines), outside = spilled(lines);
  Object.assign(root.dataset, { runs: String(runs.length), charts: String(charts.length), width: String(window.innerWidth),
    blankCharts: String(charts.filter(isBlank).length),
    clippedCharts: String(charts.filter(isClipped).length),
    overflow: String(Math.max(0, root.scrollWidth - root.clientWidth)),
    overlaps: String(covered.length), spilled: String(outside.length) });
  const words = [...covered.flat(), ...outside].map(({ node }) => node.data.trim().slice(0, 40).replace(/[\s=]+/g, "_"));
  root.dataset.faults = words.slice(0, 6).join("|");
}
window.addEventListener("account", account);
account();
