// What went wrong, in the server's own words, with a title that says what it means.

const TITLES = {
  400: "The request was refused",
  401: "This gateway asks for an API key",
  403: "This key may not do that",
  404: "There is no such model",
  413: "The conversation is too large",
  422: "The request was refused",
  429: "Too many requests for now",
  501: "This model cannot do that",
  503: "No server can take the request now",
  504: "The answer took too long",
};

export class Failure extends Error {
  /** status: of HTTP, 0 where nobody answered; retryAfter: seconds, or null. */
  constructor(title, said, { status = 0, retryAfter = null } = {}) {
    super(said);
    this.title = title;
    this.said = said;
    this.status = status;
    this.retryAfter = retryAfter;
  }

  static unreachable() {
    return new Failure("The gateway does not answer", `Nobody answers at ${location.host}. Is it still running?`);
  }

  static brokenOff(said = "The connection ended before the answer did.") {
    return new Failure("The answer broke off", said);
  }

  /** Of an answer with a status that is no success. */
  static async of(response) {
    const title = TITLES[response.status] ?? `The gateway answered with status ${response.status}`;
    const seconds = Number.parseFloat(response.headers.get("Retry-After") ?? "");
    const retryAfter = Number.isFinite(seconds) ? seconds : null;
    return new Failure(title, said(await response.text().catch(() => "")), { status: response.status, retryAfter });
  }
}

function said(body) {
  try {
    const { error, detail } = JSON.parse(body);
    const message = error?.message ?? error ?? detail;
    if (message) return typeof message === "string" ? message : JSON.stringify(message);
  } catch {
    // Not JSON: a proxy's page, or nothing.
  }
  return body.trim().slice(0, 500) || "The server gave no reason.";
}
