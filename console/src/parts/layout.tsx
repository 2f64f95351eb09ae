// The frame of every page: header, navigation, and the notice that a view is fixed.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, setToken, token, type Schemas } from "../api/client.ts";
import { forBrowser } from "../api/kept.ts";
import type { Loading } from "../api/load.ts";
import { useLoad } from "../api/load.ts";
import { navigation } from "../pages/index.ts";
import { asOf, go, href, noLedger, useLink, usePlace, withQuery } from "../router.ts";
import { number } from "../words.ts";
import { LogWatch } from "./logwatch.tsx";

export type Ledger = Schemas["LedgerDescription"];

export function useLedgers(): Loading<Ledger[]> {
  return useLoad("ledgers", async (signal) => (await get("/v1/ledgers", undefined as never, {}, signal)).ledgers);
}

const schemes = ["system", "light", "dark"] as const;
type Scheme = (typeof schemes)[number];

export function applyScheme(): Scheme {
  const kept = forBrowser.get("scheme");
  const scheme = schemes.find((one) => one === kept) ?? "system";
  if (scheme === "system") delete document.documentElement.dataset.scheme;
  else document.documentElement.dataset.scheme = scheme;
  return scheme;
}

function SchemeSwitch() {
  const [scheme, setScheme] = useState(applyScheme);
  const next = schemes[(schemes.indexOf(scheme) + 1) % schemes.length] ?? "system";
  const change = () => {
    forBrowser.set("scheme", next === "system" ? null : next);
    setScheme(applyScheme());
    dispatchEvent(new Event("colophon-scheme"));
  };
  const signs = { system: "◐", light: "○", dark: "●" };
  return <button type="button" class="bare" onClick={change} aria-label={`Colours: ${scheme}. Change to ${next}.`} title={`Colours: ${scheme}`}>{signs[scheme]}</button>;
}

function Picker({ ledgers }: { ledgers: readonly Ledger[] }) {
  const place = usePlace();
  if (ledgers.length === 1 && ledgers[0]?.name === place.ledger) return <span class="ledger">{place.ledger}</span>;
  const known = ledgers.some((ledger) => ledger.name === place.ledger);
  return (
    <select class="ledger" aria-label="Ledger" value={place.ledger} onChange={(event) => go(href(event.currentTarget.value))}>
      {!known && <option value={place.ledger}>{place.ledger === noLedger ? "choose a ledger" : place.ledger}</option>}
      {ledgers.map((ledger) => <option key={ledger.name} value={ledger.name}>{ledger.name}</option>)}
    </select>
  );
}

/** isTyping reports whether a key belongs to a field. */
function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

function SearchBox() {
  const place = usePlace();
  const [text, setText] = useState(place.page === "search" ? place.query.get("q") ?? "" : "");
  useEffect(() => {
    const focus = (event: KeyboardEvent) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      event.preventDefault();
      document.getElementById("search")?.focus();
    };
    addEventListener("keydown", focus);
    return () => removeEventListener("keydown", focus);
  }, []);
  const search = (event: Event) => {
    event.preventDefault();
    if (text.trim()) go(href(place.ledger, "search", [], { q: text.trim() }));
  };
  return (
    <form role="search" class="search" onSubmit={search}>
      <label class="unseen" for="search">Search this ledger</label>
      <input id="search" type="search" value={text} onInput={(event) => setText(event.currentTarget.value)} placeholder="Search: words, run, hash, number" autocomplete="off" autocapitalize="off" spellcheck={false} />
    </form>
  );
}

function SignOut() {
  if (!token()) return null;
  const leave = () => {
    setToken(null);
    location.reload();
  };
  return <button type="button" class="bare" onClick={leave}>Sign out</button>;
}

function Navigation() {
  const place = usePlace(), link = useLink();
  return (
    <nav aria-label="Pages">
      <ul>{navigation.map((page) => <li key={page.name}><a href={link(page.name)} aria-current={page.name === place.page || page.covers?.includes(place.page) ? "page" : undefined}>{page.title}</a></li>)}</ul>
    </nav>
  );
}

/** Fixed says that the view shows an earlier tree size. */
function Fixed() {
  const place = usePlace(), size = asOf(place);
  if (size === undefined) return null;
  return <p class="fixed" role="note">You are viewing the ledger as it was at tree size {number(size)}. <a href={withQuery(place, { as_of: undefined })}>Show the newest</a></p>;
}

export function Layout({ ledgers, children }: { ledgers: readonly Ledger[]; children: ComponentChildren }) {
  const place = usePlace();
  const skip = (event: Event) => {
    event.preventDefault();
    document.getElementById("main")?.focus();
  };
  const within = place.ledger !== "" && place.ledger !== noLedger;
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>Skip to the content</a>
      <header>
        <div class="top">
          <a class="wordmark" href={href(within ? place.ledger : "")}>Colophon</a>
          {ledgers.length > 0 && <Picker ledgers={ledgers} />}
          <span class="space" />
          {within && <SearchBox key={place.query.get("q") ?? ""} />}
          <SignOut />
          <SchemeSwitch />
        </div>
        {within && <Navigation />}
      </header>
      <main id="main" tabIndex={-1}>
        <Fixed />
        {within && <LogWatch ledger={place.ledger} />}
        {children}
      </main>
      <footer class="small quiet"><p>Everything on these pages is computed from the log, which you can verify. <a href="docs">The API</a></p></footer>
    </>
  );
}
