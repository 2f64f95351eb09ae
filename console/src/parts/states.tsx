// The states of a view: loading, failed, not permitted, empty. Each says what to do.
import type { ComponentChildren } from "preact";
import { token, type Problem } from "../api/client.ts";
import type { Loading } from "../api/load.ts";
import { href, noLedger } from "../router.ts";
import { count } from "../words.ts";

/** Loads shows a value when it is there, and its state until then. `lines` is about how many lines the value will take. With `page`, the value is the whole page, so a failure is its heading. */
export function Loads<T>({ of, lines = 3, page = false, children }: { of: Loading<T>; lines?: number; page?: boolean; children: (value: T) => ComponentChildren }) {
  if (of.state === "ready") return <>{children(of.value)}</>;
  if (of.state === "failed") return <Failed problem={of.problem} again={of.again} page={page} />;
  return (
    <div class="loading" role="status">
      <span class="unseen">Loading…</span>
      {Array.from({ length: lines }, (_, i) => <span key={i} class="bar" />)}
    </div>
  );
}

interface Advice {
  title: string;
  todo: ComponentChildren;
  again?: boolean;
}

/** adviceFor says what a person can do about a problem. */
export function adviceFor(problem: Problem): Advice {
  const signIn = <a href={href(noLedger, "sign-in", [], { back: typeof location === "undefined" ? "" : location.hash })}>Sign in</a>;
  switch (problem.status) {
    case 0:
      return { title: "The server does not answer", todo: "Start it, or check the connection. Then try again.", again: true };
    case 400:
      return { title: "The server does not understand this request", todo: "Correct the address of this page, or start from the overview." };
    case 401:
      return token() ? { title: "This token is not valid here", todo: <>It may have expired or been revoked. {signIn} with another token.</> }
        : { title: "You must sign in to see this ledger", todo: <>{signIn} with a token, or with your organisation’s account.</> };
    case 403:
      return { title: "You do not have permission to read this", todo: <>Your token lacks a scope. Ask the operator for it, or {signIn} with another token.</> };
    case 404:
      return { title: "There is nothing here", todo: "Check the number or the name. If others can see it, your token may not include this ledger." };
    case 410:
      return { title: "This content was erased", todo: "The record and its hashes remain in the log; the text is gone permanently." };
    case 422:
      return { title: "This question does not apply to these records", todo: "Choose other records. The reason is below." };
    case 429:
      return { title: "Too many requests at once", todo: problem.retryAfter ? `Try again in ${count(problem.retryAfter, "second")}.` : "Wait a moment, then try again.", again: true };
    case 503:
      return { title: "The server is busy", todo: problem.retryAfter ? `Try again in ${count(problem.retryAfter, "second")}.` : "Wait a moment, then try again.", again: true };
  }
  if (problem.status >= 500) return { title: "The server failed", todo: "Try again. If it fails again, tell the operator the time and the address of this page.", again: true };
  return { title: problem.title, todo: "Try again.", again: true };
}

function Title({ page, children }: { page: boolean; children: ComponentChildren }) {
  return page ? <h1 class="state-title">{children}</h1> : <p class="state-title">{children}</p>;
}

export function Failed({ problem, again, page = false }: { problem: Problem; again?: () => void; page?: boolean }) {
  const advice = adviceFor(problem);
  return (
    <div class={`state ${problem.status === 410 ? "calm" : "failed"}`} role="alert">
      <Title page={page}>{advice.title}</Title>
      <p>{advice.todo}</p>
      {problem.message && <p class="quiet small"><bdi>{problem.message}</bdi>{problem.places.map((place, i) => <span key={i}> <code>{place.pointer}</code> <bdi>{place.detail}</bdi></span>)}</p>}
      {advice.again && again && <button type="button" onClick={again}>Try again</button>}
    </div>
  );
}

/** Empty says that there is nothing, and how there could be something. With `page`, it is the whole page. */
export function Empty({ title, page = false, children }: { title: string; page?: boolean; children?: ComponentChildren }) {
  return (
    <div class="state calm">
      <Title page={page}>{title}</Title>
      {children !== undefined && <p>{children}</p>}
    </div>
  );
}
