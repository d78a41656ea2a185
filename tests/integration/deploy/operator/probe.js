// Put into a copy of a page by open_page.sh; no page that a user gets has it. Reads what a reader would see: how much the
// page shows, and what is drawn wrong. window.probe(MODE) answers name=value words.
function isBlank({ canvas }) {
  if (!canvas.width || !canvas.height) return true;
  const copy = Object.assign(document.createElement("canvas"), { width: 160, height: 100 }).getContext("2d", { willReadFrequently: true });
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
    const fold = parent.closest("details:not([open])");
    if (fold && !(parent.closest("summary") && parent.closest("summary").parentElement === fold && !fold.parentElement.closest("details:not([open])"))) continue;
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

// Pairs of attacks' marks on one scale of which one covers more than a third of the other.
function coveredMarks() {
  return [...document.querySelectorAll(".picture .scale")].flatMap((scale) => {
    const boxes = [...scale.querySelectorAll("circle, path")].map((mark) => mark.getBoundingClientRect());
    return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) => {
      const width = Math.min(a.right, b.right) - Math.max(a.left, b.left), height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      return width > 0 && height > 0 && width * height > Math.min(a.width * a.height, b.width * b.height) / 3;
    }));
  }).length;
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
  const root = document.documentElement, lines = textLines();
  const covered = overlaps(lines), outside = spilled(lines);
  const open = charts.filter(({ canvas }) => !canvas.closest("details:not([open])"));
  const words = [...covered.flat(), ...outside].map(({ node }) => node.data.trim().slice(0, 40).replace(/[\s=]+/g, "_"));
  return { charts: charts.length, width: window.innerWidth, planted: root.dataset.planted || 0,
    blankCharts: open.filter(isBlank).length, clippedCharts: open.filter(isClipped).length,
    overflow: Math.max(0, root.scrollWidth - root.clientWidth), overlaps: covered.length, coveredMarks: coveredMarks(), spilled: outside.length,
    faults: words.slice(0, 6).join("|") };
}

// MODE: "screen" as it opens; "open" with every fold open; "paper" under the style sheet of paper, after the event that
// comes before printing. A fold's own event and a chart's resize come in later tasks, on a busy machine much later: the
// answer waits until every chart is drawn as it should be, or for some seconds, and then says what is wrong.
window.probe = async (mode) => {
  const later = () => new Promise((done) => setTimeout(done, 100));
  const unsettled = () => charts.some((chart) => !chart.canvas.closest("details:not([open])") && (isBlank(chart) || isClipped(chart)));
  for (let depth = 0; mode === "open" && depth < 3; ++depth) {
    document.querySelectorAll("details").forEach((details) => { details.open = true; });
    await later();
  }
  if (mode === "paper") {
    for (const rule of document.styleSheets[0].cssRules) {
      if (rule instanceof CSSMediaRule && rule.media.mediaText === "print") rule.media.mediaText = "all";
    }
    window.dispatchEvent(new Event("beforeprint"));
  }
  await later();
  for (let tries = 0; tries < 50 && unsettled(); ++tries) await later();
  return Object.entries(account()).map(([name, value]) => name + "=" + value).join(" ");
};
