// Small marks that look the same everywhere: causes, states, checks, and the tree size of a view.
import { asOf, usePlace, withQuery } from "../router.ts";
import { causeOf, number, verdictOf } from "../words.ts";

/** CauseChip names a cause in its colour. */
export function CauseChip({ cause, quiet = false }: { cause: string; quiet?: boolean }) {
  const known = causeOf(cause);
  return <span class={`chip ${known.class} ${quiet ? "chip-quiet" : ""}`} data-sign={known.sign} title={known.means}>{known.name}</span>;
}

/** CauseSign stands for a cause where its name has no place: its letter in its colour, with its name for everyone who does not see it. */
export function CauseSign({ cause }: { cause: string }) {
  const known = causeOf(cause);
  return <span class={`sign ${known.class}`} role="img" aria-label={known.name} title={`${known.name}. ${known.means}`}>{known.sign}</span>;
}

const stateNames: Record<string, string> = { live: "live", failed: "failed", stale: "stale", quarantined: "quarantined" };

/** StateChip names a state other than live. */
export function StateChip({ state }: { state: string | undefined }) {
  return state === undefined || state === "live" ? null : <span class="chip chip-state">{stateNames[state] ?? state}</span>;
}

/** CheckMark shows the result of a check as a sign, with its words for everyone who does not see it. */
export function CheckMark({ result }: { result: string }) {
  const verdict = verdictOf(result);
  return <span class={`check check-${verdict.class}`} role="img" aria-label={result} title={verdict.words}>{verdict.mark}</span>;
}

/** AsOf says at which tree size a view was computed, and lets a person fix it there. Every view has one. */
export function AsOf({ size }: { size: number | undefined }) {
  const place = usePlace();
  if (size === undefined) return null;
  const fixed = asOf(place);
  return (
    <p class="as-of quiet small">
      {fixed === undefined ? "Computed" : "Fixed"} at tree size {number(size)}.{" "}
      {fixed === undefined ? <a href={withQuery(place, { as_of: size })}>Link to exactly this</a> : <a href={withQuery(place, { as_of: undefined })}>Show the newest</a>}
    </p>
  );
}
