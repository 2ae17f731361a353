/** The broker's HTTP interface: everything the page shows comes from here. */

/** A refusal: the status, what the broker says, and for a filter the text as it was probably meant, if known. */
export class Problem extends Error {
  constructor(status, text, corrected) {
    super(text);
    this.status = status;
    this.corrected = corrected;
  }
}

let token = "";
let askForToken = async () => "";
let reportHealth = () => {};

/** What to do when a token is needed, and whom to tell whether the broker answers. */
export function onEvents({ needToken, health }) {
  askForToken = needToken;
  reportHealth = health;
}

export async function get(path) {
  return request("GET", path);
}

export async function post(path, body, signal) {
  return request("POST", path, body, signal);
}

export async function remove(path) {
  return request("DELETE", path);
}

async function request(method, path, body, signal, again = true) {
  const headers = {};
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    if (signal?.aborted) throw new Problem(0, "the request was cancelled");
    reportHealth(false);
    throw new Problem(0, "no answer from the broker");
  }
  reportHealth(true);
  if (response.status === 401 && again) {
    token = await askForToken();
    if (token) return request(method, path, body, signal, false);
  }
  const text = await response.text();
  let answer = null;
  try {
    answer = text ? JSON.parse(text) : null;
  } catch {
    throw new Problem(response.status, text.slice(0, 300));
  }
  if (!response.ok) throw new Problem(response.status, answer?.error ?? response.statusText, answer?.corrected);
  return answer;
}
