// The live log: server-sent events, read with fetch because EventSource cannot send a token.
import { address, Problem, request, type Schemas } from "./client.ts";

export type EventLine = Schemas["EventLine"];

/** Message is one server-sent event. */
export interface Message {
  event: string;
  data: string;
}

/** messages takes pieces of a stream, and yields the server-sent events in them. */
export class Messages {
  private rest = "";

  push(piece: string): Message[] {
    const blocks = (this.rest + piece).split("\n\n");
    this.rest = blocks.pop() ?? "";
    return blocks.map(messageOf).filter((message) => message.data !== "");
  }
}

function messageOf(block: string): Message {
  const message: Message = { event: "", data: "" };
  for (const line of block.split("\n")) {
    const at = line.indexOf(":");
    const name = line.slice(0, at), value = line.slice(at + 1).replace(/^ /, "");
    if (name === "event") message.event = value;
    if (name === "data") message.data += (message.data && "\n") + value;
  }
  return message;
}

/** follow calls back with each event from a seq on, as it is recorded, until the signal aborts. It reconnects, and resumes after the last event. */
export async function follow(ledger: string, from: number, onEvent: (line: EventLine) => void, signal: AbortSignal, onState: (live: boolean) => void): Promise<void> {
  let next = from;
  for (let pause = 1000; !ended(signal); pause = Math.min(pause * 2, 30_000)) {
    try {
      const response = await request(address("/v1/ledgers/{ledger}/events", { ledger }, { from: next }), { signal, headers: { Accept: "text/event-stream" } });
      if (!response.body) return;
      onState(true);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const messages = new Messages();
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        for (const message of messages.push(part.value)) {
          if (message.event === "frozen" || message.event === "refused") return;
          if (message.event) continue;
          const line = JSON.parse(message.data) as EventLine;
          next = line.seq + 1;
          pause = 1000;
          onEvent(line);
        }
      }
    } catch (error) {
      if (ended(signal)) return;
      if (error instanceof Problem && (error.status === 401 || error.status === 403 || error.status === 404)) return;
    } finally {
      onState(false);
    }
    await new Promise((resolve) => {
      setTimeout(resolve, pause);
      signal.addEventListener("abort", resolve, { once: true });
    });
  }
}

/** ended hides from the compiler that a signal can change while a function waits. */
function ended(signal: AbortSignal): boolean {
  return signal.aborted;
}
