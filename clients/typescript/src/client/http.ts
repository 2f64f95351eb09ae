import { LedgerError, UnreachableError, reasonOf } from "./errors.js";

export interface Response {
  readonly text: string;
}

/** A server. Requests follow no redirects, because a redirect could give the token to another server. */
export class Connection {
  constructor(
    readonly base: string,
    private readonly token: string | undefined,
    private readonly timeout: number, // milliseconds for each wait
    private readonly fetcher: typeof fetch,
  ) {}

  /** Makes one request and returns the text of the answer. onText is called with each part as it arrives. */
  async call(method: string, path: string, body?: string, headers: Record<string, string> = {}): Promise<string> {
    const request = `${method} ${path}`;
    const controller = new AbortController();
    let waiting = setTimeout(() => controller.abort(), this.timeout);
    try {
      const response = await this.fetcher(this.base + path, {
        method, redirect: "manual", signal: controller.signal,
        headers: { ...(this.token && { Authorization: `Bearer ${this.token}` }), ...(body !== undefined && { "Content-Type": "application/json" }), ...headers },
        ...(body !== undefined && { body }),
      });
      const decoder = new TextDecoder();
      let text = "";
      const reader = response.body?.getReader();
      while (reader) {
        clearTimeout(waiting);
        waiting = setTimeout(() => controller.abort(), this.timeout);
        const { done, value } = await reader.read();
        if (done) break;
        text += decoder.decode(value, { stream: true });
      }
      text += decoder.decode();
      if (response.status < 200 || response.status > 299) throw refusal(request, response, text);
      return text;
    } catch (error) {
      if (error instanceof LedgerError) throw error;
      const why = controller.signal.aborted ? `no answer within ${this.timeout / 1000} s` : causes(error);
      throw new UnreachableError(`no answer from the server at ${this.base}: ${why}`, { cause: error });
    } finally {
      clearTimeout(waiting);
    }
  }
}

function refusal(request: string, response: globalThis.Response, text: string): LedgerError {
  let problem: Record<string, unknown> | null = null;
  try {
    const read: unknown = JSON.parse(text);
    if (read !== null && typeof read === "object" && !Array.isArray(read)) problem = read as Record<string, unknown>;
  } catch {
    // The answer may come from a proxy.
  }
  const status = response.status || 300; // a redirect in a browser
  const reason = status < 400 ? "the server redirects, and this client follows no redirects; use the URL of the right server"
    : problem ? reasonOf(problem) : reasonOf({ detail: text.split("\n")[0] || response.statusText });
  return new LedgerError(request, status, reason, retryAfter(response.headers.get("Retry-After")), problem);
}

function retryAfter(header: string | null): number {
  if (header === null) return 0;
  if (/^\d{1,9}$/.test(header)) return Number(header);
  const at = Date.parse(header);
  return Number.isNaN(at) ? 0 : Math.max(0, (at - Date.now()) / 1000);
}

/** Returns the messages of an error and of its causes, because fetch reports only that it failed. */
function causes(error: unknown): string {
  const messages: string[] = [];
  for (let e = error, depth = 0; e instanceof Error && depth < 4; e = e.cause, depth++) {
    const code = "code" in e && typeof e.code === "string" ? e.code : "";
    messages.push(e.message || code || e.name);
  }
  return messages.join(": ") || "unknown error";
}
