// A ledger as it grows.
import { useEffect, useState } from "preact/hooks";
import { followHeads, type LiveSummary } from "../api/follow.ts";
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

/** useNow returns the time in milliseconds, and again after every `pause`. */
export function useNow(pause: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), pause);
    return () => clearInterval(timer);
  }, [pause]);
  return now;
}
