// The forms that change the cluster, where the dashboard was started with --allow-changes. Each shows the command line
// that it runs, as the server makes it. Every text from outside is set as text, never as markup.

import { all } from "./live.js";
import { element } from "./views.js";

const token = document.querySelector("meta[name=kafkalite-token]").content;
const known = {
  topic: () => all("topic").map((each) => each.name),
  group: () => all("group").map((each) => each.name),
  broker: () => all("broker").map((each) => each.id ?? each.name),
};

async function ask(body) {
  const headers = { "Content-Type": "application/json", "X-Kafkalite-Token": token };
  try {
    const answer = await fetch("actions", { method: "POST", headers, body: JSON.stringify(body) });
    return await answer.json();
  } catch {
    return { error: "the dashboard's server does not answer" };
  }
}

function input(field) {
  if (field.kind === "choice") {
    return element("select", { name: field.name }, ...field.choices.map((each) => element("option", { value: each }, each)));
  }
  const attributes = { name: field.name, value: field.default, autocomplete: "off", spellcheck: "false" };
  if (field.kind in known) {
    attributes.list = `known-${field.kind}`;
  }
  if (field.kind === "number" || field.kind === "broker") {
    attributes.inputmode = "numeric";
  }
  return element("input", attributes);
}

// Suggestions are read when a field gets the focus, because topics, groups and brokers come and go.
function suggest(target) {
  const list = target.list;
  if (list) {
    const names = known[list.id.replace("known-", "")]();
    list.replaceChildren(...names.map((name) => element("option", { value: name })));
  }
}

function draw(section, actions) {
  const byName = new Map(actions.map((each) => [each.name, each]));
  const options = actions.map((each) => element("option", { value: each.name }, each.title));
  const choice = element("select", { id: "action" }, ...options);
  const fields = element("div", { class: "fields" });
  const line = element("pre", { id: "action-command", "aria-live": "polite" }, "");
  const button = element("button", { type: "submit" }, "Run");
  const outcome = element("output", { id: "action-outcome" }, "");
  const form = element("form", {}, element("label", {}, "Action", choice), fields, button, line);
  const lists = Object.keys(known).map((kind) => element("datalist", { id: `known-${kind}` }));
  let asked = 0;

  const filled = () => {
    const inputs = [...fields.querySelectorAll("input, select")];
    return { action: choice.value, fields: Object.fromEntries(inputs.map((each) => [each.name, each.value])) };
  };
  const preview = async () => {
    const number = ++asked;
    const answer = await ask(filled());
    if (number === asked) {
      line.textContent = answer.command ?? answer.error;
      line.classList.toggle("fault", answer.command === undefined);
    }
  };
  const choose = () => {
    const inputs = byName.get(choice.value).fields.map((field) => element("label", {}, field.label, input(field)));
    fields.replaceChildren(...inputs);
    outcome.textContent = "";
    preview();
  };
  const run = async (event) => {
    event.preventDefault();
    button.disabled = true;
    outcome.textContent = "running …";
    outcome.classList.remove("fault");
    const answer = await ask({ ...filled(), run: true });
    const failed = answer.code !== 0;
    const end = answer.error ?? `${failed ? `failed with exit code ${answer.code}` : "done"}: ${answer.command}`;
    outcome.textContent = [end, answer.output].filter(Boolean).join("\n");
    outcome.classList.toggle("fault", failed);
    button.disabled = false;
  };

  choice.addEventListener("change", choose);
  fields.addEventListener("input", preview);
  fields.addEventListener("change", preview);
  fields.addEventListener("focusin", (event) => suggest(event.target));
  form.addEventListener("submit", run);
  section.append(form, outcome, ...lists);
  section.hidden = false;
  choose();
}

// Shows the forms in `section`; it stays hidden where nothing may be changed.
export async function showActions(section) {
  if (token) {
    const answer = await (await fetch("actions")).json();
    draw(section, answer.actions);
  }
}
