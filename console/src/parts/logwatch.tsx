// The watch over a log that this browser has verified before: every visit compares the newest
// checkpoint with the remembered one.
import { useEffect, useState } from "preact/hooks";
import { type Alarm, watch } from "../verify/here.ts";
import { AlarmBox } from "./verifyhere.tsx";

/** LogWatch shows nothing, unless the log contradicts what this browser remembers of it. */
export function LogWatch({ ledger }: { ledger: string }) {
  const [found, setFound] = useState<Alarm>();
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const controller = new AbortController();
    setFound(undefined);
    void watch(ledger, controller.signal).then((alarm) => {
      if (!controller.signal.aborted) setFound(alarm);
    });
    return () => controller.abort();
  }, [ledger, turn]);
  return found ? <AlarmBox alarm={found} ledger={ledger} again={() => setTurn((n) => n + 1)} /> : null;
}
