// A ledger as it grows.
import { useEffect, useState } from "preact/hooks";
import { followHeads, type LiveSummary } from "../api/follow.ts";
import { useLatest, useLoad, type Loading } from "../api/load.ts";
import type { Head } from "../changes.ts";

export interface Live {
  summary: LiveSummary | undefined; // the newest
  heads: readonly Head[]; // of the last minute, the oldest first
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
      setLive((old) => ({ ...old, summary, heads: [...old.heads.filter((head) => head.at >= at - 60_000), { at, size: summary.tree_size }] }));
    }, controller.signal, (connected) => setLive((old) => ({ ...old, connected })));
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

/** useGrown loads an answer, and loads it again when the ledger has grown beyond its tree size. The last answer stays until the next one is there. */
export function useGrown<T extends { as_of: number }>(key: string, size: number, load: (signal: AbortSignal) => Promise<T>): Loading<T> {
  const [grown, setGrown] = useState(0);
  const loading = useLatest(useLoad(`${key} ${grown}`, load));
  const has = loading.state === "ready" ? loading.value.as_of : undefined;
  useEffect(() => {
    if (has !== undefined && has < size) setGrown(size);
  }, [has, size]);
  return loading;
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
