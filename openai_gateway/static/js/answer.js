// One answer of a model: reads the stream into a message and measures it.

const SHORTEST_MS = 20; // a rate over less says nothing

/**
 * Fill `message` from the gateway's chunks; `moved` is called after each.
 * When it ends, however it ends, message.state, .finish and .figures say how; nothing is raised.
 *
 * figures: firstMs (request to first text), totalMs, tokens and promptTokens (the server's count, after a whole
 * answer only), rate (tokens a second after the first).
 */
export async function readAnswer(gateway, request, message, signal, moved) {
  const began = performance.now();
  let first = null;
  let last = began;
  let usage = null;
  message.state = "answering";
  try {
    for await (const chunk of gateway.chat(request, signal)) {
      usage = chunk.usage ?? usage;
      const choice = chunk.choices?.[0];
      const text = choice?.delta?.content ?? "";
      message.finish = choice?.finish_reason ?? message.finish;
      if (text === "") continue;
      last = performance.now();
      first ??= last;
      message.text += text;
      moved();
    }
    message.state = "done";
  } catch (error) {
    if (error.name === "AbortError") message.state = "stopped";
    else fail(message, error);
  }
  message.figures = figuresOf(began, first, last, usage);
}

function fail(message, error) {
  message.state = "failed";
  message.failure = {
    title: error.title ?? "This page made a mistake",
    said: error.said ?? String(error),
    status: error.status ?? 0,
    retryAfter: error.retryAfter ?? null,
  };
}

function figuresOf(began, first, last, usage) {
  if (first === null) return null;
  const tokens = usage?.completion_tokens ?? null;
  const rate = tokens > 1 && last - first >= SHORTEST_MS ? ((tokens - 1) * 1000) / (last - first) : null;
  return { firstMs: first - began, totalMs: performance.now() - began, tokens, promptTokens: usage?.prompt_tokens ?? null, rate };
}
