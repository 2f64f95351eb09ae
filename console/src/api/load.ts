// What a view loads, and the states that it passes through.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, Problem, type Answer, type GetPath, type OpenQuery, type PathValues } from "./client.ts";

export type Loaded<T> = { state: "loading" } | { state: "failed"; problem: Problem } | { state: "ready"; value: T };

export type Loading<T> = Loaded<T> & { again: () => void };

export function problemOf(error: unknown): Problem {
  return error instanceof Problem ? error : new Problem(-1, "Fault of the console", error instanceof Error ? error.message : String(error));
}

/** useLoad loads a value, and loads it again when key changes. An earlier answer never replaces a later one. */
export function useLoad<T>(key: string, load: (signal: AbortSignal) => Promise<T>): Loading<T> {
  const [turn, setTurn] = useState(0);
  const [loaded, setLoaded] = useState<{ key: string; value: Loaded<T> }>({ key, value: { state: "loading" } });
  const current = useRef(load);
  current.current = load;
  useEffect(() => {
    const controller = new AbortController();
    const set = (value: Loaded<T>) => {
      if (!controller.signal.aborted) setLoaded({ key, value });
    };
    current.current(controller.signal).then((value) => set({ state: "ready", value }), (error: unknown) => set({ state: "failed", problem: problemOf(error) }));
    return () => controller.abort();
  }, [key, turn]);
  const again = useCallback(() => {
    setLoaded({ key, value: { state: "loading" } });
    setTurn((n) => n + 1);
  }, [key]);
  return { ...(loaded.key === key ? loaded.value : { state: "loading" as const }), again };
}

/** useGet asks one question of the contract. */
export function useGet<P extends GetPath>(path: P, values: PathValues<P>, query: OpenQuery = {}): Loading<Answer<P>> {
  return useLoad(JSON.stringify([path, values, query]), (signal) => get(path, values, query, signal));
}

/** useLatest keeps the value that was loaded last while the next one is loaded, so that a live view does not flicker. */
export function useLatest<T>(loading: Loading<T>): Loading<T> {
  const last = useRef<Loading<T> | undefined>(undefined);
  if (loading.state === "ready") last.current = loading;
  return loading.state === "loading" && last.current ? last.current : loading;
}

interface Page<R> {
  as_of: number;
  rows: R[];
  next?: string | null;
}

/** A path whose answer is a list with cursors. */
export type ListPath = { [P in GetPath]: Answer<P> extends { as_of: number; rows: unknown[] } ? P : never }[GetPath];

export type RowOf<P extends ListPath> = Answer<P> extends { rows: (infer R)[] } ? R : never;

export interface Pages<A> {
  first: Loading<A>; // the first page
  rows: A extends { rows: (infer R)[] } ? R[] : never; // of all pages that are loaded
  more: (() => void) | undefined; // loads the next page; undefined if there is none
  busy: boolean; // a further page is being loaded
  problem: Problem | undefined; // of a further page
}

/** emptyPages is how many pages without rows are passed over for one further page. A filter that rejects much gives such pages. */
const emptyPages = 20;

/** usePages lists rows page by page, by the cursors of the API. Later pages are for the tree size of the first. */
export function usePages<P extends ListPath>(path: P, values: PathValues<P>, query: OpenQuery = {}): Pages<Answer<P>> {
  const key = JSON.stringify([path, values, query]);
  const ask = useCallback((cursor: string | undefined, signal?: AbortSignal) => fullPage<P>(path, values, query, cursor, signal), [key]);
  const first = useLoad(key, (signal) => ask(undefined, signal));
  const [further, setFurther] = useState<{ of: unknown; pages: Page<unknown>[]; busy: boolean; problem?: Problem }>({ of: null, pages: [], busy: false });
  const start = first.state === "ready" ? (first.value as unknown as Page<unknown>) : undefined;
  const mine = further.of === start ? further : { of: start, pages: [], busy: false };
  const last = mine.pages.at(-1) ?? start;
  const next = last?.next ?? undefined;
  const more = next === undefined || mine.busy ? undefined : () => {
    setFurther({ ...mine, busy: true });
    ask(next).then(
      (page) => setFurther({ of: start, pages: [...mine.pages, page as unknown as Page<unknown>], busy: false }),
      (error: unknown) => setFurther({ ...mine, busy: false, problem: problemOf(error) }),
    );
  };
  const rows = [...(start?.rows ?? []), ...mine.pages.flatMap((page) => page.rows)];
  return { first, rows: rows as Pages<Answer<P>>["rows"], more, busy: mine.busy, problem: "problem" in mine ? mine.problem : undefined };
}

/** fullPage asks for a page, and passes over pages without rows. */
async function fullPage<P extends ListPath>(path: P, values: PathValues<P>, query: OpenQuery, cursor: string | undefined, signal?: AbortSignal): Promise<Answer<P>> {
  for (let n = 1; ; n++) {
    const answer = await get(path, values, { ...query, cursor }, signal);
    const page = answer as unknown as Page<unknown>;
    if (page.rows.length > 0 || !page.next || n === emptyPages) return answer;
    cursor = page.next;
  }
}

/** lanes runs at most `width` tasks at a time, in the order in which they were added. */
export function lanes(width: number): <T>(task: () => Promise<T>) => Promise<T> {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async (task) => {
    if (running >= width) await new Promise<void>((start) => waiting.push(start));
    running++;
    try {
      return await task();
    } finally {
      running--;
      waiting.shift()?.();
    }
  };
}
