// Requests to the server, and its streams of events.

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export async function get(path, query = {}) {
  return answer(fetch(`${path}?${new URLSearchParams(query)}`));
}

export async function post(path, body) {
  return answer(
    fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    }),
  );
}

async function answer(request) {
  const response = await request.catch(() => {
    throw new Refused(0, "The server does not answer.");
  });
  const found = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, found.error || response.statusText);
  return found;
}

// Follow a stream of events. The browser connects again by itself unless the server refuses.
export function follow(path, query, handlers, { opened = () => {}, lost = () => {} } = {}) {
  const source = new EventSource(`${path}?${new URLSearchParams(query)}`);
  source.onopen = opened;
  source.onerror = () => lost(source.readyState === EventSource.CLOSED);
  for (const [kind, handle] of Object.entries(handlers)) {
    source.addEventListener(kind, (message) => handle(JSON.parse(message.data)));
  }
  return source;
}
