// Client for the REST API. Errors are thrown as `Refused` with the service's message, code and field details.

export class Refused extends Error {
  constructor(status, { code = "error", message = "The service returned an unexpected response.", details = [] } = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.details = details;
  }
}

/**
 * @param {string} path
 * @param {{method?: string, body?: any, headers?: Record<string, string>, signal?: AbortSignal}} [options]
 */
export async function api(path, { method = "GET", body, headers = {}, signal } = {}) {
  let answer;
  try {
    answer = await fetch(`/api/v1${path}`, {
      method,
      signal,
      headers: body === undefined ? headers : { "Content-Type": "application/json", ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Refused(0, { code: "offline", message: "The service cannot be reached." });
  }
  if (answer.status === 401) {
    toLogin();
    throw new Refused(401, { code: "unauthenticated", message: "Please log in." });
  }
  if (!answer.ok) {
    const body = await answer.json().catch(() => null);
    throw new Refused(answer.status, body?.error);
  }
  return answer.status === 204 ? null : answer.json();
}

export function toLogin() {
  location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search + location.hash)}`);
}

export function query(values) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined && one !== null && one !== "") found.append(name, one);
  }
  const text = found.toString();
  return text && `?${text}`;
}

/**
 * The pages of a list, one after the other.
 * @param {string} path
 * @param {{limit?: number, cursor?: string, signal?: AbortSignal, more?: Record<string, any>}} [options]
 */
export async function* pages(path, { limit = 200, cursor = "cursor", signal, more = {} } = {}) {
  let next = null;
  do {
    const page = await api(path + query({ ...more, limit, [cursor]: next }), { signal });
    yield page.items;
    next = page.next_cursor;
  } while (next);
}

let known = null;
/** Information about the service and the current user; requested once. */
export function info() {
  known ??= api("/system/info").catch((problem) => {
    known = null;
    throw problem;
  });
  return known;
}
