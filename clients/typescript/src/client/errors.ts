/** An answer with an error status (RFC 9457). */
export class LedgerError extends Error {
  override readonly name = "LedgerError";

  constructor(
    /** The request, or "a line of a batch". */
    readonly request: string,
    readonly status: number,
    /** What is wrong, in one line. */
    readonly reason: string,
    /** In seconds; 0 if the server sent none. */
    readonly retryAfter = 0,
    /** The problem document, or null if the answer was not one. */
    readonly problem: Readonly<Record<string, unknown>> | null = null,
  ) {
    super(`${request}: ${status} ${reason}`);
  }

  /** Reports whether the same request might succeed later. */
  get temporary(): boolean {
    return temporary.has(this.status);
  }
}

export const temporary: ReadonlySet<number> = new Set([408, 429, 502, 503, 504]);

/** The server could not be reached, or its answer broke off. A write might have been recorded. */
export class UnreachableError extends Error {
  override readonly name = "UnreachableError";
}

/** Returns in one line what a problem says. */
export function reasonOf(problem: Readonly<Record<string, unknown>>): string {
  const places = Array.isArray(problem["errors"]) ? (problem["errors"] as { pointer?: unknown; detail?: unknown }[]) : [];
  const text = places.length > 0 ? places.map((p) => [p.pointer, p.detail].filter((part) => typeof part === "string").join(": ")).join("; ")
    : [problem["detail"], problem["title"], "no reason given"].find((part): part is string => typeof part === "string")!;
  // eslint-disable-next-line no-control-regex -- a server's text must not add lines to a log
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, " ").slice(0, 1000);
}
