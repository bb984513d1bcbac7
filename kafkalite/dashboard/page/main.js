// Connects the values with the sections of the page. Each section is drawn at most once a frame.

import { showActions } from "./actions.js";
import { connect, onChange } from "./live.js";
import { drawTree, showZnode } from "./tree.js";
import { drawBrokers, drawCluster, drawGroups, drawTimeline, drawTopics, drawTransactions } from "./views.js";

const sections = [
  { kinds: ["cluster"], draw: drawCluster },
  { kinds: ["broker", "cluster"], draw: drawBrokers },
  { kinds: ["topic", "log", "broker"], draw: drawTopics },
  { kinds: ["group", "log"], draw: drawGroups },
  { kinds: ["transaction"], draw: drawTransactions },
  { kinds: ["timeline"], draw: drawTimeline },
  { kinds: ["znode"], draw: drawTree },
];
const stale = new Set();

function redraw() {
  for (const section of stale) {
    section.draw();
  }
  stale.clear();
}

onChange((keys) => {
  const kinds = keys && new Set([...keys].map((key) => key.split("/", 1)[0]));
  if (stale.size === 0) {
    requestAnimationFrame(redraw);
  }
  for (const section of sections) {
    if (kinds === null || section.kinds.some((kind) => kinds.has(kind))) {
      stale.add(section);
    }
  }
});

// Every value names its source: a click shows the znode.
document.addEventListener("click", (event) => {
  const source = event.target.closest("button[data-znode]");
  if (source) {
    showZnode(source.dataset.znode);
  }
});

connect((state) => {
  const connection = document.getElementById("connection");
  connection.textContent = state === "live" ? "live" : "the dashboard's server does not answer; trying again";
  connection.classList.toggle("lost", state !== "live");
});

showActions(document.getElementById("actions"));
