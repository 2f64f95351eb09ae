// What the caller may do with the ledger of the current address.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Schemas } from "../api/client.ts";
import { usePlace } from "../router.ts";

export type Ledger = Schemas["LedgerDescription"];
export type Scope = Schemas["Scope"];

/** Ledgers are those that the caller can see. */
export const Ledgers = createContext<readonly Ledger[]>([]);

/** useLedger returns the ledger of the current address as it was when the page was loaded, or undefined if the caller cannot see it. */
export function useLedger(): Ledger | undefined {
  const { ledger } = usePlace();
  return useContext(Ledgers).find((one) => one.name === ledger);
}

/** useMay reports whether the caller has a scope on the ledger of the current address. */
export function useMay(scope: Scope): boolean {
  return useLedger()?.scopes.includes(scope) ?? false;
}
