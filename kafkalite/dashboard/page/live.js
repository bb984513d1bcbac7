// The values of the cluster, by their keys, as the server sends them.

export const values = new Map();

const listeners = new Set();
const order = new Intl.Collator("en", { numeric: true });

// Calls `listener` with the set of changed keys, or with null where any may have changed.
export function onChange(listener) {
  listeners.add(listener);
}

function apply(changes) {
  for (const [key, value] of Object.entries(changes)) {
    if (value === null) {
      values.delete(key);
    } else {
      values.set(key, value);
    }
  }
}

function tell(keys) {
  for (const listener of listeners) {
    listener(keys);
  }
}

// The values whose keys begin with `kind/`, in the order of their keys.
export function all(kind) {
  const found = [];
  for (const [key, value] of values) {
    if (key.startsWith(`${kind}/`)) {
      found.push([key, value]);
    }
  }
  return found.sort(([a], [b]) => order.compare(a, b)).map(([, value]) => value);
}

// Opens the stream; the browser opens it again when it breaks. `status` hears "live" and "lost".
export function connect(status) {
  const stream = new EventSource("changes");
  stream.addEventListener("all", (event) => {
    values.clear();
    apply(JSON.parse(event.data));
    status("live");
    tell(null);
  });
  stream.addEventListener("changes", (event) => {
    const changes = JSON.parse(event.data);
    apply(changes);
    tell(new Set(Object.keys(changes)));
  });
  stream.addEventListener("error", () => status("lost"));
}
