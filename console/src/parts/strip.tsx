// A strip of the outputs of one input over time. Each square is a run: its letter is its output,
// and its colour is the cause of the change from the run before.
import type { Schemas } from "../api/client.ts";
import { plainly } from "./safe.ts";
import { causeOf, count, number } from "../words.ts";

type Run = Pick<Schemas["TimelineRow"], "seq" | "cause" | "output_changed" | "time" | "names">;

export function Strip<R extends Run>({ runs, letters, label, href, more }: { runs: readonly R[]; letters: readonly string[]; label: string; href: (run: R) => string; more: number }) {
  return (
    <ol class="strip" aria-label={label}>
      {runs.map((run, i) => {
        const cause = run.cause === null ? undefined : causeOf(run.cause);
        const changed = run.output_changed === true;
        const says = `Run ${number(i + 1)}, output ${letters[i] ?? ""}${cause === undefined ? ", the first" : changed ? `, changed: ${cause.name}` : ", the same as before"}`;
        return (
          <li key={run.seq} class={changed && cause ? `changed ${cause.class}` : ""}>
            <span class="strip-cause" aria-hidden="true">{changed && cause ? cause.sign : ""}</span>
            <a href={href(run)} title={run.names?.output?.words === undefined ? says : `${says}: ${plainly(run.names.output.words)}…`} aria-label={says}>{letters[i]}</a>
          </li>
        );
      })}
      {more > 0 && <li class="strip-more quiet small">and {count(more, "more run")}</li>}
    </ol>
  );
}

/** StripKey explains a strip. */
export function StripKey() {
  return <p class="note">Each square is a run, the oldest first. Squares with the same letter have the same output. Where the output changed, the symbol above the square shows the cause: {["system_prompt", "model", "temperature", "confounded", "stochastic"].map((cause, i) => <span key={cause}>{i > 0 && ", "}<span class={`sign ${causeOf(cause).class}`} aria-hidden="true">{causeOf(cause).sign}</span> {causeOf(cause).name}</span>)}, and others.</p>;
}
