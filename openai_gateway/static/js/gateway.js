// The gateway's HTTP API. Paths are relative, so that a proxy may put the page anywhere.

import { readEvents } from "./event_stream.js";
import { Failure } from "./failure.js";

export class Gateway {
  /** key: () => API key or "". */
  constructor(key) {
    this.key = key;
  }

  /** The served models; raises Failure. */
  async models() {
    return (await this.#json("v1/models")).data ?? [];
  }

  /** Every model with its state, or null where this caller may not see them. */
  async adminModels() {
    try {
      return (await this.#json("admin/models")).data ?? [];
    } catch (failure) {
      if ([401, 403, 404, 405, 503].includes(failure.status)) return null;
      throw failure;
    }
  }

  /** action: "load" or "unload". */
  async change(model, action) {
    await this.#ask(`admin/models/${encodeURIComponent(model)}/${action}`, { method: "POST" });
  }

  /** Yield the chunks of a streamed chat completion; raises Failure, or AbortError when `signal` says so. */
  async *chat(request, signal) {
    const wanted = { ...request, stream: true, stream_options: { include_usage: true } };
    const headers = { "Content-Type": "application/json" };
    const response = await this.#ask("v1/chat/completions", {
      method: "POST",
      headers,
      body: JSON.stringify(wanted),
      signal,
    });
    try {
      for await (const data of readEvents(response.body)) {
        if (data === "[DONE]") return;
        const chunk = JSON.parse(data);
        if (chunk.error) throw Failure.brokenOff(chunk.error.message ?? String(chunk.error));
        yield chunk;
      }
    } catch (error) {
      if (error.name === "AbortError" || error instanceof Failure) throw error;
      throw Failure.brokenOff();
    }
    throw Failure.brokenOff();
  }

  async #json(path) {
    const response = await this.#ask(path, { cache: "no-store" });
    try {
      return await response.json();
    } catch {
      throw new Failure("The gateway's answer cannot be read", `${path}: not JSON.`, { status: response.status });
    }
  }

  async #ask(path, options) {
    const headers = { ...options.headers };
    if (this.key()) headers.Authorization = `Bearer ${this.key()}`;
    let response;
    try {
      response = await fetch(path, { ...options, headers });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw Failure.unreachable();
    }
    if (!response.ok) throw await Failure.of(response);
    return response;
  }
}
