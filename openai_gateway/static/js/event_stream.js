// Server-sent events out of a fetch body.

const LINE_END = /\r\n|\n|\r/g;

/**
 * Yield the data of each event of a ReadableStream of bytes.
 * Comments and other fields are passed over; an event that the stream breaks off is not one.
 */
export async function* readEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let data = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const { lines, left } = splitLines(rest + value);
      rest = left;
      for (const line of lines) {
        if (line === "") {
          if (data.length > 0) yield data.join("\n");
          data = [];
        } else if (line.startsWith("data:")) {
          data.push(line.slice(line[5] === " " ? 6 : 5));
        }
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** Whole lines, and what is left; a CR at the very end waits, since an LF may follow. */
function splitLines(text) {
  const lines = [];
  let start = 0;
  for (const end of text.matchAll(LINE_END)) {
    if (end[0] === "\r" && end.index === text.length - 1) break;
    lines.push(text.slice(start, end.index));
    start = end.index + end[0].length;
  }
  return { lines, left: text.slice(start) };
}
