// The ZooKeeper tree, of which only the rows in sight are in the page: a search, arrow keys, and one znode in full.

import { values } from "./live.js";
import { element, patch, rem } from "./views.js";

const box = document.getElementById("tree");
const rows = element("div", { class: "rows", role: "none" });
const search = document.getElementById("search");
const open = new Set(["/", "/brokers", "/consumers"]);
let list = []; // The rows: path, level, number among its siblings, count of siblings, whether it has children.
let active = "/";
let shown = null;

const below = (path, name) => (path === "/" ? `/${name}` : `${path}/${name}`);
const parentOf = (path) => path.slice(0, path.lastIndexOf("/")) || "/";
const height = () => Math.round(1.75 * rem());

function allPaths() {
  const paths = [];
  for (const [key, value] of values) {
    if (key.startsWith("znode/")) {
      paths.push(value.path);
    }
  }
  return paths.sort();
}

function find() {
  const wanted = search.value.trim().toLowerCase();
  const paths = allPaths();
  if (wanted) {
    const found = paths.filter((path) => `${path}\n${values.get(`znode${path}`).data ?? ""}`.toLowerCase().includes(wanted));
    list = found.map((path, index) => ({ path, level: 1, place: index + 1, count: found.length, parent: false }));
    return found.length;
  }
  const children = new Map();
  for (const path of paths.filter((each) => each !== "/")) {
    const parent = parentOf(path);
    if (!children.has(parent)) {
      children.set(parent, []);
    }
    children.get(parent).push(path.slice(path.lastIndexOf("/") + 1));
  }
  list = [];
  const add = (path, level, place, count) => {
    const names = children.get(path) ?? [];
    list.push({ path, level, place, count, parent: names.length > 0 });
    if (open.has(path)) {
      names.forEach((name, index) => add(below(path, name), level + 1, index + 1, names.length));
    }
  };
  add("/", 1, 1, 1);
  return paths.length;
}

function rowOf({ path, level, place, count, parent }) {
  const data = values.get(`znode${path}`)?.data;
  const name = search.value.trim() || path === "/" ? path : path.slice(path.lastIndexOf("/") + 1);
  const mark = parent ? (open.has(path) ? "▾ " : "▸ ") : "  ";
  const row = element("div", {
    role: "treeitem",
    id: `row-${encodeURIComponent(path)}`,
    "data-row": path,
    "aria-level": level,
    "aria-posinset": place,
    "aria-setsize": count,
    "aria-selected": path === shown,
  });
  if (parent) {
    row.setAttribute("aria-expanded", open.has(path));
  }
  row.classList.toggle("active", path === active);
  row.append(`${"  ".repeat(level - 1)}${mark}${data ? `${name}  ${data}` : name}`);
  return row;
}

function drawRows() {
  const each = height();
  const first = Math.max(0, Math.floor(box.scrollTop / each) - 5);
  const last = Math.min(list.length, first + Math.ceil(box.clientHeight / each) + 10);
  rows.style.paddingTop = `${first * each}px`;
  rows.style.paddingBottom = `${(list.length - last) * each}px`;
  patch(rows, list.slice(first, last).map(rowOf));
  box.hidden = list.length === 0;
  const row = list.slice(first, last).some(({ path }) => path === active);
  if (row) {
    box.setAttribute("aria-activedescendant", `row-${encodeURIComponent(active)}`);
  } else {
    box.removeAttribute("aria-activedescendant");
  }
}

export function drawTree() {
  const count = find();
  if (!list.some(({ path }) => path === active)) {
    active = list[0]?.path ?? "/";
  }
  document.getElementById("tree-count").textContent = `${count} znodes`;
  drawRows();
  if (shown?.startsWith("/")) {
    drawZnode();
  }
}

function moveTo(path) {
  active = path;
  const index = list.findIndex((each) => each.path === path);
  const top = index * height();
  if (index >= 0 && (top < box.scrollTop || top + height() > box.scrollTop + box.clientHeight)) {
    box.scrollTop = top - height();
  }
  drawRows();
}

function toggle(path, wanted) {
  if (wanted) {
    open.add(path);
  } else {
    open.delete(path);
  }
  drawTree();
  moveTo(path);
}

// Shows the znode at `path`, and moves to it where a section of the page names it as its source.
export function showZnode(path) {
  shown = path;
  for (let parent = path; parent !== "/"; ) {
    parent = parentOf(parent);
    open.add(parent);
  }
  find();
  moveTo(path);
  drawZnode();
  document.getElementById("znode").scrollIntoView({ block: "nearest" });
}

// Shows the request, or the broker's page, that a value comes from.
function showTold(title, text) {
  shown = null;
  drawRows();
  const target = document.getElementById("znode");
  target.replaceChildren(element("h3", {}, title), element("pre", {}, text));
  target.scrollIntoView({ block: "nearest" });
}

function sessionOf(owner) {
  for (const [key, value] of values) {
    if (key.startsWith("broker/") && value.session === owner) {
      return `${owner} (session of broker ${value.id})`;
    }
  }
  return owner;
}

function drawZnode() {
  const znode = values.get(`znode${shown}`);
  const target = document.getElementById("znode");
  if (!znode) {
    target.replaceChildren(element("p", {}, `${shown} does not exist now`));
    return;
  }
  const kind = znode.kind;
  const facts = {
    Meaning: kind?.description ?? "not a znode of the classic tree",
    Kind: kind?.path,
    "Written by": kind?.writer,
    "Watched by": kind?.watchers,
    Lifetime: kind?.lifetime,
    Version: znode.version,
    "Ephemeral owner": znode.ephemeral_owner && sessionOf(znode.ephemeral_owner),
    Changed: znode.mtime_ms > 0 ? new Date(znode.mtime_ms).toLocaleString("en-GB") : null,
    "Last transaction": `0x${znode.mzxid.toString(16)}`,
  };
  const facts_list = element("dl");
  for (const [name, value] of Object.entries(facts)) {
    facts_list.append(element("dt", {}, name), element("dd", {}, value));
  }
  const data = znode.data === null ? "hidden: secret, or its ACL does not let the dashboard read it" : pretty(znode.data);
  patch(target, [element("h3", {}, znode.path), facts_list, element("pre", {}, data)]);
}

function pretty(data) {
  try {
    return JSON.stringify(JSON.parse(data), null, 2);
  } catch {
    return data;
  }
}

const KEYS = {
  ArrowDown: (index) => moveTo(list[Math.min(list.length - 1, index + 1)].path),
  ArrowUp: (index) => moveTo(list[Math.max(0, index - 1)].path),
  Home: () => moveTo(list[0].path),
  End: () => moveTo(list[list.length - 1].path),
  ArrowRight: (index) => {
    const row = list[index];
    if (row.parent && !open.has(row.path)) {
      toggle(row.path, true);
    } else if (row.parent) {
      moveTo(list[index + 1].path);
    }
  },
  ArrowLeft: (index) => {
    const row = list[index];
    if (row.parent && open.has(row.path)) {
      toggle(row.path, false);
    } else if (list.some(({ path }) => path === parentOf(row.path))) {
      moveTo(parentOf(row.path));
    }
  },
  Enter: () => showZnode(active),
  " ": () => showZnode(active),
};

box.append(rows);
box.addEventListener("scroll", drawRows);
box.addEventListener("keydown", (event) => {
  const index = list.findIndex(({ path }) => path === active);
  if (index >= 0 && KEYS[event.key] && !event.ctrlKey && !event.altKey && !event.metaKey) {
    event.preventDefault();
    KEYS[event.key](index);
  }
});
box.addEventListener("click", (event) => {
  const path = event.target.closest("[data-row]")?.dataset.row;
  if (path !== undefined) {
    const row = list.find((each) => each.path === path);
    if (row.parent) {
      toggle(path, !open.has(path) || path !== active);
    }
    showZnode(path);
  }
});
search.addEventListener("input", () => {
  box.scrollTop = 0;
  drawTree();
});
document.addEventListener("click", (event) => {
  const told = event.target.closest("button[data-told]");
  if (told) {
    showTold(told.dataset.title, told.dataset.told);
  }
});
