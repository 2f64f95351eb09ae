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
  await listen(() => address("/v1/ledgers/{ledger}/events", { ledger }, { from: next }), (message) => {
    if (message.event) return;
    const line = JSON.parse(message.data) as EventLine;
    next = line.seq + 1;
    onEvent(line);
  }, signal, onState);
}

export type LiveSummary = Schemas["LiveSummary"];

/** followHeads calls back with the summary of a ledger, now and when it has grown, until the signal aborts. It reconnects. */
export async function followHeads(ledger: string, onHead: (summary: LiveSummary) => void, signal: AbortSignal, onState: (live: boolean) => void): Promise<void> {
  await listen(() => address("/v1/ledgers/{ledger}/live", { ledger }), (message) => {
    if (message.event === "head") onHead(JSON.parse(message.data) as LiveSummary);
  }, signal, onState);
}

/** listen reads a stream and connects again when it breaks, until the signal aborts or the server says that nothing more will come. */
async function listen(at: () => string, onMessage: (message: Message) => void, signal: AbortSignal, onState: (live: boolean) => void): Promise<void> {
  for (let pause = 1000; !ended(signal); pause = Math.min(pause * 2, 30_000)) {
    try {
      const response = await request(at(), { signal, headers: { Accept: "text/event-stream" } });
      if (!response.body) return;
      onState(true);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const messages = new Messages();
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        for (const message of messages.push(part.value)) {
          if (message.event === "frozen" || message.event === "refused") return;
          onMessage(message);
          pause = 1000;
        }
      }
    } catch (error) {
      if (ended(signal)) return;
      if (error instanceof Problem && (error.status === 401 || error.status === 403 || error.status === 404)) return;
    } finally {
      if (!ended(signal)) onState(false);
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
