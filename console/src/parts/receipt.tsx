// The receipt of a record, as a file that `colophon verify` checks offline.
import { useState } from "preact/hooks";
import { address, request } from "../api/client.ts";
import { problemOf } from "../api/load.ts";

/** save gives a text to the person as a file. */
export function save(name: string, text: string): void {
  const at = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = at;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(at), 1000);
}

/** receiptText returns a receipt as the server wrote it. Its numbers must keep their digits, so it is never parsed and written again. */
export async function receiptText(ledger: string, seq: number, size?: number, signal?: AbortSignal): Promise<string> {
  const response = await request(address("/v1/ledgers/{ledger}/records/{seq}/receipt", { ledger, seq }, { tree_size: size }), { signal, headers: { Accept: "application/json" } });
  return response.text();
}

export function DownloadReceipt({ ledger, seq, size }: { ledger: string; seq: number; size: number | undefined }) {
  const [says, setSays] = useState("");
  const download = () => {
    setSays("");
    receiptText(ledger, seq, size).then((text) => save(`receipt-${ledger}-${seq}.json`, text), (error: unknown) => setSays(problemOf(error).message));
  };
  return <><button type="button" onClick={download}>Download the receipt</button> <span role="status">{says}</span></>;
}
