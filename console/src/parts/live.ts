// A ledger as it grows.
import { useEffect, useRef, useState } from "preact/hooks";
import { followHeads, type LiveSummary } from "../api/follow.ts";
import { useLoad, type Loading } from "../api/load.ts";
import { recentHeads, type Head } from "../changes.ts";

export interface Live {
  summary: LiveSummary | undefined; // the newest
  heads: readonly Head[]; // of the last minute, and one before it; the oldest first
  connected: boolean;
}

/** useLive follows a ledger while `on`. */
export function useLive(ledger: string, on: boolean): Live {
  const [live, setLive] = useState<Live>({ summary: undefined, heads: [], connected: false });
  useEffect(() => {
    setLive({ summary: undefined, heads: [], connected: false });
    if (!on) return;
    const controller = new AbortController();
    void followHeads(ledger, (summary) => {
      const at = Date.now();
      setLive((old) => ({ ...old, summary, heads: [...recentHeads(old.heads, at), { at, size: summary.tree_size }] }));
    }, controller.signal, (connected) => setLive((old) => ({ ...old, connected, heads: connected ? old.heads : [] }))); // what happened without a connection has no times
    return () => controller.abort();
  }, [ledger, on]);
  return live;
}

/** useSlowly returns a value that follows another one, but changes at most once in `pause` milliseconds. */
export function useSlowly<T>(value: T, pause: number): T {
  const [slow, setSlow] = useState({ value, at: 0 });
  useEffect(() => {
    if (Object.is(slow.value, value)) return;
    const timer = setTimeout(() => setSlow({ value, at: Date.now() }), Math.max(0, slow.at + pause - Date.now()));
    return () => clearTimeout(timer);
  }, [value, slow, pause]);
  return slow.value;
}

const retryPause = 5000; // milliseconds before an answer that failed or is too old is asked for again

/** useGrown loads an answer, and loads it again when the ledger has grown beyond its tree size. The last answer stays until the next one is there, even if a request in between fails. */
export function useGrown<T extends { as_of: number }>(key: string, size: number, load: (signal: AbortSignal) => Promise<T>): Loading<T> {
  const [asked, setAsked] = useState({ size: 0, turn: 0 });
  const loading = useLoad(`${key} ${asked.size} ${asked.turn}`, load);
  const last = useRef<{ key: string; loading: Loading<T> & { state: "ready" } } | undefined>(undefined);
  if (loading.state === "ready") last.current = { key, loading };
  const kept = last.current?.key === key ? last.current.loading : undefined;
  const has = kept?.value.as_of;
  const behind = has !== undefined && has < size, { state } = loading;
  useEffect(() => {
    if (behind && state === "ready" && asked.size < size) setAsked({ size, turn: 0 });
  }, [behind, size, state, asked]);
  // The size is no dependency: if it grows, the pause does not begin again.
  const again = behind && (state === "failed" || (state === "ready" && asked.size >= size));
  useEffect(() => {
    if (!again) return;
    const timer = setTimeout(() => setAsked((old) => ({ ...old, turn: old.turn + 1 })), retryPause);
    return () => clearTimeout(timer);
  }, [again, asked]);
  return kept ?? loading;
}

/** useNow returns the time in milliseconds, and again after every `pause`. */
export function useNow(pause: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), pause);
    return () => clearInterval(timer);
  }, [pause]);
  return now;
}
