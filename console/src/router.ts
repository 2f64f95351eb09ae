// Addresses of the console. They are in the fragment (#/default/record/41?as_of=500), which
// browsers do not send: the server's log never shows what a person looked for.
import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";

export type Query = Record<string, string | number | undefined>;

/** Place is a parsed address. */
export interface Place {
  ledger: string; // "" if the address names none
  page: string; // "" is the overview
  rest: string[]; // further elements of the path
  query: URLSearchParams;
}

/** noLedger stands in an address for pages that belong to no ledger. No ledger can have this name. */
export const noLedger = "-";

function decoded(element: string): string {
  try {
    return decodeURIComponent(element);
  } catch {
    return element;
  }
}

export function parsePlace(fragment: string): Place {
  const text = fragment.replace(/^#?\/?/, "");
  const at = text.indexOf("?");
  const path = at < 0 ? text : text.slice(0, at);
  const [ledger = "", page = "", ...rest] = path.split("/").map(decoded);
  return { ledger, page, rest: rest.filter((element) => element !== ""), query: new URLSearchParams(at < 0 ? "" : text.slice(at + 1)) };
}

export function href(ledger: string, page = "", rest: readonly (string | number)[] = [], query: Query = {}): string {
  const path = [ledger, page, ...rest].map((element) => encodeURIComponent(element)).join("/").replace(/\/$/, "");
  const given = Object.entries(query).filter((pair): pair is [string, string | number] => pair[1] !== undefined && pair[1] !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `#/${path}${text && "?"}${text}`;
}

/** asOf returns the tree size to which an address is fixed. */
export function asOf(place: Place): number | undefined {
  const text = place.query.get("as_of");
  return text !== null && /^[1-9]\d{0,15}$/.test(text) ? Number(text) : undefined;
}

export const Here = createContext<Place>(parsePlace(""));

export function usePlace(): Place {
  return useContext(Here);
}

/** Link makes the address of a page of the same ledger. If the current view is fixed to a tree size, so is the other page. */
export type Link = (page?: string, rest?: readonly (string | number)[], query?: Query) => string;

export function useLink(): Link {
  const place = usePlace();
  return (page, rest, query) => href(place.ledger, page, rest, { as_of: asOf(place), ...query });
}

/** With returns the address of the current page with some values of its query replaced. undefined and "" remove a value. */
export function withQuery(place: Place, query: Query): string {
  return href(place.ledger, place.page, place.rest, { ...Object.fromEntries(place.query), ...query });
}

export function go(to: string, replace = false): void {
  if (replace) location.replace(to);
  else location.assign(to);
}

/** useAddress returns the current address, and follows it. */
export function useAddress(): Place {
  const [place, setPlace] = useState(() => parsePlace(location.hash));
  useEffect(() => {
    const follow = () => setPlace(parsePlace(location.hash));
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return place;
}
