// The console: finds the page of the current address, and shows it in the layout.
import { render, type ComponentChildren } from "preact";
import { useEffect, useErrorBoundary, useState } from "preact/hooks";
import { complete } from "./api/signin.ts";
import { Problem } from "./api/client.ts";
import { problemOf } from "./api/load.ts";
import { SignInPage } from "./pages/signin.tsx";
import { pages } from "./pages/index.ts";
import { applyScheme, Layout, useLedgers, type Ledger } from "./parts/layout.tsx";
import { Ledgers } from "./parts/may.ts";
import { Empty, Failed, Loads } from "./parts/states.tsx";
import { TryIt } from "./parts/tryit.tsx";
import { go, Here, href, noLedger, useAddress, type Place } from "./router.ts";

/** useFreshPage moves the focus and the title when the page changes, as a browser does for a new document. */
function useFreshPage(place: Place, title: string): void {
  const at = `${place.ledger}/${place.page}/${place.rest.join("/")}`;
  const [first] = useState(at);
  useEffect(() => {
    document.title = title;
    if (at === first) return;
    scrollTo(0, 0);
    document.getElementById("main")?.focus({ preventScroll: true });
  }, [at]);
  // If the new view lacks the element that had the focus, such as a link that was followed, the keyboard goes on from the start of the page.
  const view = `${at}?${place.query.toString()}`, [firstView] = useState(view);
  useEffect(() => {
    if (view !== firstView && document.activeElement === document.body) document.getElementById("main")?.focus({ preventScroll: true });
  }, [view]);
}

function titleOf(place: Place, signingIn: boolean): string {
  if (signingIn) return "Sign in · Colophon";
  const page = pages.find((one) => one.name === place.page);
  return [page?.title ?? "No such page", place.ledger, "Colophon"].filter((part) => part !== "").join(" · ");
}

function Content({ place, ledgers }: { place: Place; ledgers: readonly Ledger[] }) {
  const page = pages.find((one) => one.name === place.page);
  const first = ledgers.find((ledger) => ledger.name === "default") ?? ledgers[0];
  useEffect(() => {
    if (place.ledger === "" && first) go(href(first.name), true);
  }, [place.ledger, first?.name]);
  if (place.ledger === "") return first ? null : <Empty page title="There is no ledger that you may see">Ask the operator for a token with the scope read.</Empty>;
  if (!page) return <Empty page title="There is no such page">Choose one from the navigation.</Empty>;
  const Component = page.component;
  return (
    <>
      <TryIt />
      <Guarded key={`${place.ledger}/${place.page}/${place.rest.join("/")}`}><Component /></Guarded>
    </>
  );
}

/** Guarded shows an error of a page in its place. */
function Guarded({ children }: { children: ComponentChildren }) {
  const [error, reset] = useErrorBoundary() as [unknown, () => void];
  return error === undefined ? <>{children}</> : <Failed problem={problemOf(error)} again={reset} page />;
}

function Console({ problem }: { problem: Problem | undefined }) {
  const place = useAddress();
  const ledgers = useLedgers();
  const known = ledgers.state === "ready" ? ledgers.value : [];
  const signingIn = place.ledger === noLedger && place.page === "sign-in";
  useFreshPage(place, titleOf(place, signingIn));
  return (
    <Here.Provider value={place}>
      <Ledgers.Provider value={known}>
        <Layout ledgers={known}>
          {problem && <Failed problem={problem} />}
          {signingIn ? <SignInPage /> : <Loads page of={ledgers} lines={8}>{(list) => <Content place={place} ledgers={list} />}</Loads>}
        </Layout>
      </Ledgers.Provider>
    </Here.Provider>
  );
}

async function start(): Promise<void> {
  applyScheme();
  let problem: Problem | undefined;
  try {
    const back = await complete(location.search);
    if (back !== undefined) location.hash = back;
  } catch (error) {
    problem = problemOf(error);
  }
  const root = document.getElementById("app");
  if (root) render(<Console problem={problem} />, root);
}

void start();
