// Server-sent events read by fetch, so that a credential can be sent and a break is noticed. Knows the format
// and nothing of what is said.

import { Refusal, credentials, refusalOf } from "./api.js";

/**
 * @typedef {{id: string, kind: string, data: string}} Said
 */

/** The daemon says something every 15 s; this long without a byte is a connection that is dead. */
const SILENCE_MS = 40_000;

/** Takes text apart into events, whatever its pieces are. */
export class Parser {
  constructor() {
    this.rest = "";
    this.id = "";
    this.kind = "";
    /** @type {string[]} */
    this.data = [];
  }

  /** @param {string} piece @returns {Said[]} */
  take(piece) {
    /** @type {Said[]} */
    const events = [];
    const text = this.rest + piece;
    let from = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", from)) {
      const line = text.slice(from, text[end - 1] === "\r" && end > from ? end - 1 : end);
      from = end + 1;
      const said = this.line(line);
      if (said) events.push(said);
    }
    this.rest = text.slice(from);
    return events;
  }

  /** @param {string} line @returns {Said | null} */
  line(line) {
    if (line === "") {
      const said = this.data.length > 0 ? { id: this.id, kind: this.kind, data: this.data.join("\n") } : null;
      this.kind = "";
      this.data = [];
      return said;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return null;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "id") this.id = value;
    else if (field === "event") this.kind = value;
    else if (field === "data") this.data.push(value);
    return null;
  }
}

/**
 * Reads a stream until it ends. What comes in one piece is told together.
 * @param {string} path
 * @param {object} options
 * @param {AbortSignal} options.signal
 * @param {string | null} [options.lastId] Goes on after this event.
 * @param {() => void} [options.onOpen]
 * @param {(said: Said[]) => void} options.onSaid
 * @returns {Promise<void>} Resolves when the daemon ended the stream.
 */
export async function readStream(path, { signal, lastId, onOpen, onSaid }) {
  const silence = new AbortController();
  let timer = setTimeout(() => silence.abort(), SILENCE_MS);
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(), SILENCE_MS);
  };
  try {
    const headers = credentials({ accept: "text/event-stream" });
    if (lastId) headers["last-event-id"] = lastId;
    const either = AbortSignal.any([signal, silence.signal]);
    const response = await fetch(path, { headers, signal: either, cache: "no-store" });
    if (!response.ok) throw await refusalOf(response);
    if (!response.body) throw new Refusal(0, "unreachable", "the stream is empty");
    heard();
    onOpen?.();
    const parser = new Parser();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      const said = parser.take(value);
      if (said.length > 0) onSaid(said);
    }
  } catch (error) {
    if (error instanceof Refusal || signal.aborted) throw error;
    throw new Refusal(0, "unreachable", "the stream broke off");
  } finally {
    clearTimeout(timer);
  }
}
