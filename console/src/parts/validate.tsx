// Validating a path of a story: a form with a reason, and the receipt.
import { useState } from "preact/hooks";
import { address, request, type Problem } from "../api/client.ts";
import { problemOf } from "../api/load.ts";
import { toHex } from "../../../clients/typescript/src/verify/index.js";
import { asOf, usePlace } from "../router.ts";
import { number } from "../words.ts";
import { useLedger, useMay } from "./may.ts";
import { RecordLink } from "./name.tsx";
import { DownloadReceipt } from "./receipt.tsx";
import { Failed } from "./states.tsx";

interface Target {
  ledger: string;
  project: string;
  path: string;
  build?: string;
  fingerprint: string | null | undefined;
}

/** validation is the body of the request. The fingerprint makes sure that the text is the one that was read. */
export function validation(target: Omit<Target, "ledger" | "project" | "path">, reason: string): Record<string, unknown> {
  return { validated: true, reason, ...(target.build !== undefined && { build: target.build }), ...(target.fingerprint && { content_fingerprint: target.fingerprint }) };
}

async function put(target: Target, key: string, reason: string): Promise<number> {
  const at = address("/v1/ledgers/{ledger}/paths/{project}/{path_id}/validation", { ledger: target.ledger, project: target.project, path_id: target.path });
  const response = await request(at, { method: "PUT", headers: { "Content-Type": "application/json", "Idempotency-Key": key }, body: JSON.stringify(validation(target, reason)) });
  const receipt = (await response.json()) as { seq?: number; event?: { seq?: number } };
  return receipt.seq ?? receipt.event?.seq ?? NaN;
}

type State = { at: "closed" } | { at: "open" } | { at: "sending" } | { at: "failed"; problem: Problem } | { at: "done"; seq: number };

/** Validate asks for a reason, records the validation, and shows the number of its event. */
export function Validate(target: Target) {
  const [state, setState] = useState<State>({ at: "closed" });
  const [reason, setReason] = useState("");
  const [key] = useState(() => toHex(crypto.getRandomValues(new Uint8Array(16)))); // randomUUID exists only over HTTPS
  const may = useMay("write"), ledger = useLedger(), fixed = asOf(usePlace());
  if (state.at === "done") return <p class="validated" role="status">✓ Validated. The validation is <RecordLink seq={state.seq}>event {number(state.seq)}</RecordLink> of the log. <DownloadReceipt ledger={target.ledger} seq={state.seq} size={undefined} /></p>;
  if (!may || ledger?.frozen || fixed !== undefined) return null;
  if (state.at === "closed") return <p><button type="button" onClick={() => setState({ at: "open" })}>Validate…</button></p>;
  const send = () => {
    setState({ at: "sending" });
    put(target, key, reason.trim()).then((seq) => setState({ at: "done", seq }), (error: unknown) => setState({ at: "failed", problem: problemOf(error) }));
  };
  return (
    <form class="validate" onSubmit={(event) => {
      event.preventDefault();
      if (reason.trim() && state.at !== "sending") send();
    }}>
      <label>Why is this text right? The log keeps the reason permanently.
        <input value={reason} maxLength={500} required autofocus onInput={(event) => setReason(event.currentTarget.value)} /></label>
      <p><button type="submit" class="primary" disabled={state.at === "sending"}>Validate this text</button> <button type="button" onClick={() => setState({ at: "closed" })}>Cancel</button></p>
      {state.at === "sending" && <p role="status" class="quiet">Recording…</p>}
      {state.at === "failed" && <Failed problem={state.problem} again={send} />}
    </form>
  );
}
