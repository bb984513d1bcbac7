// The sections on brokers, topics, groups and transactions. Every text from outside is set as text, never as markup.

import { all, values } from "./live.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 200;
const OPEN_FOLDS = 20; // With more topics or groups each is folded at first.
const FEW_ROWS = 200; // A table with more is drawn in part.

export function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    node.setAttribute(key, value);
  }
  node.append(...children.map((child) => (child instanceof Node ? child : String(child ?? "–"))));
  return node;
}

export function source(path, text = path) {
  return element("button", { type: "button", class: "source", "data-znode": path, title: `show ${path}` }, text);
}

// A value that does not stand in a znode: a click shows the request, or the page of a broker, that it comes from.
function told(text, title, explanation) {
  const attributes = { type: "button", class: "source", "data-title": title, "data-told": explanation };
  return element("button", attributes, text);
}

export function rem() {
  return parseFloat(getComputedStyle(document.documentElement).fontSize);
}

// Makes the children of `parent` equal to `wanted`. What is equal stays, so that focus and scroll positions stay.
export function patch(parent, wanted) {
  wanted.forEach((node, index) => {
    const old = parent.childNodes[index];
    if (!old) {
      parent.append(node);
    } else if (old.isEqualNode(node)) {
      return;
    } else if (old.nodeType === Node.ELEMENT_NODE && old.nodeName === node.nodeName && old.namespaceURI === node.namespaceURI) {
      for (const name of new Set([...old.getAttributeNames(), ...node.getAttributeNames()])) {
        const value = node.getAttribute(name);
        if (name === "style") {
          old.style.cssText = node.style.cssText; // The policy of the page refuses the attribute.
        } else if (value === null) {
          old.removeAttribute(name);
        } else if (value !== old.getAttribute(name)) {
          old.setAttribute(name, value);
        }
      }
      patch(old, [...node.childNodes]);
    } else {
      old.replaceWith(node);
    }
  });
  while (parent.childNodes.length > wanted.length) {
    parent.lastChild.remove();
  }
}

// A table of `rows`, which are lists of cells or functions that make one. Of a long table only the rows in sight are
// in the page; `lines` is the height of a row then, and `key` names the table.
function table(headers, rows, key = "", lines = 1) {
  const head = element("thead", {}, element("tr", {}, ...headers.map((text) => element("th", { scope: "col" }, text))));
  const row = (cells) => element("tr", {}, ...(typeof cells === "function" ? cells() : cells).map(cell));
  if (rows.length <= FEW_ROWS) {
    return element("div", { class: "scroll" }, element("table", {}, head, element("tbody", {}, ...rows.map(row))));
  }
  const height = Math.ceil((1.6 * lines + 0.6) * rem());
  const box = document.querySelector(`div.virtual[data-table="${CSS.escape(key)}"]`);
  const first = Math.max(0, Math.floor((box?.scrollTop ?? 0) / height) - 3);
  const last = Math.min(rows.length, first + Math.ceil((box?.clientHeight ?? 480) / height) + 6);
  const body = rows.slice(first, last).map((cells, index) => {
    const made = row(cells);
    made.setAttribute("aria-rowindex", first + index + 2);
    made.style.height = `${height}px`;
    return made;
  });
  const shown = element("table", { "aria-rowcount": rows.length + 1 }, head, element("tbody", {}, ...body));
  const space = element("div", {}, shown);
  space.style.paddingTop = `${first * height}px`;
  space.style.paddingBottom = `${(rows.length - last) * height}px`;
  const attributes = { class: "scroll virtual", "data-table": key, tabindex: 0, role: "region", "aria-label": key };
  return element("div", attributes, space);
}

function cell(content) {
  if (typeof content === "number") {
    return element("td", { class: "number" }, content.toLocaleString("en"));
  }
  return content instanceof Node && content.nodeName === "TD" ? content : element("td", {}, content);
}

function show(id, ...nodes) {
  const texts = nodes.map((node) => (node instanceof Node ? node : document.createTextNode(node)));
  patch(document.getElementById(id), texts);
}

function empty(text) {
  return element("p", { class: "empty" }, text);
}

function moment(ms) {
  return ms > 0 ? new Date(ms).toLocaleString("en-GB") : "–";
}

export function drawCluster() {
  const cluster = values.get("cluster");
  if (!cluster) {
    show("cluster", "no broker has registered yet");
    return;
  }
  const controller = cluster.controller === null ? "no controller" : `controller: broker ${cluster.controller}`;
  show(
    "cluster",
    "cluster ",
    source(cluster.znodes.id, cluster.id ?? "–"),
    ", ",
    source(cluster.znodes.controller, controller),
    ", epoch ",
    source(cluster.znodes.controller_epoch, String(cluster.controller_epoch ?? "–")),
  );
}

export function drawBrokers() {
  const controller = values.get("cluster")?.controller;
  const rows = all("broker").map((broker) => {
    if (broker.fault) {
      const fault = element("span", { class: "fault" }, broker.fault);
      return [broker.name, fault, "", "", "", source(`/brokers/ids/${broker.name}`)];
    }
    return [
      broker.id,
      broker.endpoints.map((each) => `${each.listener}://${each.host}:${each.port}`).join(" "),
      broker.rack,
      broker.id === controller ? element("span", { class: "badge" }, "controller") : "",
      moment(broker.since_ms),
      source(broker.znodes[0]),
    ];
  });
  show("brokers", rows.length ? table(["Id", "Listeners", "Rack", "Role", "Since", "Source"], rows) : empty("none"));
}

function replicaBar(broker, partition, log, low, high) {
  const replica = log?.replicas[broker];
  const inSync = partition.isr.includes(broker);
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "replica");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} 16`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  const place = (offset) => (high > low ? ((offset - low) / (high - low)) * WIDTH : 0);
  const bar = document.createElementNS(SVG, "rect");
  bar.setAttribute("class", `log ${replica ? (inSync ? "in-sync" : "lagging") : "unknown"}`);
  bar.setAttribute("x", replica ? place(replica.start) : 0);
  bar.setAttribute("width", replica ? Math.max(2, place(replica.end) - place(replica.start)) : 2);
  bar.setAttribute("y", 2);
  bar.setAttribute("height", 12);
  svg.append(bar);
  if (log && log.high_watermark !== undefined) {
    const line = document.createElementNS(SVG, "line");
    const x = Math.min(WIDTH - 1, Math.max(1, place(log.high_watermark)));
    for (const [name, value] of Object.entries({ x1: x, x2: x, y1: 0, y2: 16, class: "watermark" })) {
      line.setAttribute(name, value);
    }
    svg.append(line);
  }
  const offsets = replica ? `offsets ${replica.start} to ${replica.end}` : "does not answer";
  svg.setAttribute("aria-label", `replica on broker ${broker}: ${offsets}, ${inSync ? "in sync" : "not in sync"}`);
  const role = broker === partition.leader ? `${broker} leader` : String(broker);
  const text = replica ? `${replica.start} – ${replica.end}` : "?";
  return element("div", { class: "replica" }, element("span", {}, role), svg, element("span", {}, text));
}

function offsetsTold(value, log, topic, partition) {
  const replicas = Object.entries(log.replicas).map(
    ([id, { start, end }]) => `broker ${id}, replica_id -2: timestamp -2 gives log start ${start}, -1 gives log end ${end}`,
  );
  const leader = `broker ${partition.leader}, replica_id -1: timestamp -1 gives high watermark ${log.high_watermark}`;
  const metrics = "The brokers' metrics: kafka_log_log_logstartoffset, kafka_log_log_logendoffset";
  const text = ["Sent once a second:", ...replicas, leader, metrics].join("\n");
  return told(value.toLocaleString("en"), `${log.request} for ${topic}-${partition.partition}`, text);
}

function partitionRow(topic, partition) {
  if (partition.fault) {
    return [partition.partition, element("span", { class: "fault" }, partition.fault), "", "", source(partition.znode)];
  }
  const log = values.get(`log/${topic.name}/${partition.partition}`);
  const ends = Object.values(log?.replicas ?? {});
  const low = Math.min(...ends.map((each) => each.start));
  const high = Math.max(...ends.map((each) => each.end));
  const bars = partition.replicas.map((broker) => replicaBar(broker, partition, log, low, high));
  const leader = partition.leader < 0 ? element("span", { class: "bad" }, "none") : String(partition.leader);
  return [
    partition.partition,
    element("td", {}, leader, partition.leader_epoch === undefined ? "" : `, epoch ${partition.leader_epoch}`),
    element("td", {}, ...bars),
    log?.high_watermark === undefined ? "–" : offsetsTold(log.high_watermark, log, topic.name, partition),
    source(partition.znode),
  ];
}

function fold(id, key, title, body, open) {
  const kept = document.getElementById(id).querySelector(`details[data-key="${CSS.escape(key)}"]`);
  const details = element("details", { "data-key": key }, element("summary", {}, title));
  details.open = kept ? kept.open : open;
  if (details.open) {
    details.append(body());
  }
  return details;
}

// An opened fold gets its tables, and a scrolled table the rows that came in sight.
function redrawAround(event) {
  const target = event.target instanceof Element ? event.target : document.body;
  if (event.type === "toggle" || target.matches("div.virtual")) {
    if (target.closest("#topics")) {
      drawTopics();
    } else if (target.closest("#groups")) {
      drawGroups();
    } else if (target.closest("#transactions")) {
      drawTransactions();
    }
  }
}
document.addEventListener("toggle", redrawAround, true);
document.addEventListener("scroll", redrawAround, true);

export function drawTopics() {
  const topics = all("topic");
  const folds = topics.map((topic) => {
    if (topic.fault) {
      return element("p", { class: "fault" }, `${topic.fault} `, source(`/brokers/topics/${topic.name}`));
    }
    const missing = topic.partitions.filter((each) => each.isr.length < each.replicas.length).length;
    const offline = topic.partitions.filter((each) => each.leader < 0).length;
    const trouble = [offline && `${offline} offline`, missing && `${missing} under-replicated`].filter(Boolean);
    const title = element("span", {}, topic.name, ` · ${topic.partitions.length} partitions `);
    if (trouble.length) {
      title.append(element("span", { class: "bad" }, trouble.join(", ")));
    }
    const body = () =>
      element(
        "div",
        {},
        element("p", {}, "Assignment: ", source(topic.znodes[0])),
        table(
          ["Partition", "Leader", "Replicas", "High watermark", "Source"],
          topic.partitions.map((partition) => () => partitionRow(topic, partition)),
          `partitions of ${topic.name}`,
          Math.max(1, ...topic.partitions.map((each) => each.replicas.length)),
        ),
      );
    return fold("topics", topic.name, title, body, topics.length <= OPEN_FOLDS);
  });
  show("topics", ...(folds.length ? folds : [empty("none")]));
}

function lag(entry) {
  const log = values.get(`log/${entry.topic}/${entry.partition}`);
  const end = log?.high_watermark;
  if (end === undefined || entry.offset === null) {
    return "–";
  }
  const lag = Math.max(0, end - entry.offset);
  const text = `high watermark ${end} (${log.request} to the leader)\nless offset ${entry.offset} (${entry.znode})\nThe brokers' metric: kafka_consumergroup_lag`;
  return told(lag.toLocaleString("en"), `Lag of ${entry.topic}-${entry.partition}`, text);
}

function memberRow(member) {
  const assigned = member.assigned === null ? "known to the group's clients only" : member.assigned.join(" ") || "none";
  const client = member.fault ? element("span", { class: "fault" }, member.fault) : (member.client ?? "ZooKeeper consumer");
  return [member.id, client, member.host, assigned, source(member.znode)];
}

function offsetRow(entry) {
  const offset = entry.fault ? element("span", { class: "fault" }, entry.fault) : (entry.offset ?? "–");
  return [entry.topic, entry.partition, offset, lag(entry), source(entry.znode)];
}

function groupBody(group) {
  const members = [...group.members, ...group.consumers];
  const [root, generation, coordinator] = group.znodes;
  return element(
    "div",
    {},
    element("p", {}, "Group: ", source(root), " · generation: ", source(generation), " · coordinator: ", source(coordinator)),
    members.length
      ? table(["Member", "Client", "Host", "Assignment", "Source"], members.map((each) => () => memberRow(each)), `members of ${group.name}`)
      : empty("no member"),
    group.offsets.length
      ? table(["Topic", "Partition", "Offset", "Lag", "Source"], group.offsets.map((each) => () => offsetRow(each)), `offsets of ${group.name}`)
      : empty("no offsets"),
  );
}

export function drawGroups() {
  const groups = all("group");
  const folds = groups.map((group) => {
    if (group.fault) {
      return element("p", { class: "fault" }, `${group.fault} `, source(`/consumers/${group.name}`));
    }
    const members = group.members.length + group.consumers.length;
    const where = group.coordinator === null ? "no coordinator" : `coordinator: broker ${group.coordinator}`;
    const title = `${group.name} · ${members} members · ${where} · generation ${group.generation ?? "–"}`;
    return fold("groups", group.name, title, () => groupBody(group), groups.length <= OPEN_FOLDS);
  });
  show("groups", ...(folds.length ? folds : [empty("none")]));
}

export function drawTransactions() {
  const rows = all("transaction").map((each) =>
    each.fault
      ? [each.name, element("span", { class: "fault" }, each.fault), "", "", "", source(`/transactions/${each.name}`)]
      : [
          each.id,
          each.state,
          `${each.producer_id} / ${each.producer_epoch}`,
          moment(each.since_ms),
          [...each.partitions, ...each.groups.map((group) => `group ${group}`)].join(" "),
          source(each.znodes[0]),
        ],
  );
  const headers = ["Transactional id", "State", "Producer id / epoch", "Open since", "Partitions and groups", "Source"];
  show("transactions", rows.length ? table(headers, rows, "transactions") : empty("none"));
}

export function drawTimeline() {
  const events = values.get("timeline/newest")?.events ?? [];
  const rows = [...events].reverse().map((event) => {
    const epochs = [
      event.controller_epoch !== undefined && `controller epoch ${event.controller_epoch}`,
      event.leader_epoch !== undefined && `leader epoch ${event.leader_epoch}`,
      event.zxid !== undefined && `zxid 0x${event.zxid.toString(16)}`,
    ];
    const text = event.why ? `${event.text}: ${event.why}` : event.text;
    const when = new Date(event.time_ms).toISOString().slice(11, 23);
    const page = values.get(`broker/${event.broker}`)?.events ?? "its page /events";
    const from = told(`broker ${event.broker}`, `Event ${event.sequence} of broker ${event.broker}`, `From ${page}\n${JSON.stringify(event, null, 2)}`);
    return [when, from, event.kind, text, epochs.filter(Boolean).join(", ")];
  });
  const headers = ["Time (UTC)", "From", "Kind", "What", "Order"];
  show("timeline", rows.length ? table(headers, rows) : empty("no broker serves its events: set metrics.listener"));
}
