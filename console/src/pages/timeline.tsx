import type { OpenQuery, Schemas } from "../api/client.ts";
import { usePages } from "../api/load.ts";
import { letters, longer, why } from "../changes.ts";
import { ChangesNav, Differs, Opens, PromptNames } from "../parts/changes.tsx";
import { CauseChip, StateChip } from "../parts/marks.tsx";
import { Named, RecordLink } from "../parts/name.tsx";
import { RecordsCompared, RecordText } from "../parts/sidebyside.tsx";
import { Empty } from "../parts/states.tsx";
import { Strip } from "../parts/strip.tsx";
import { Listed } from "../parts/table.tsx";
import { Line } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { asOf, useLink, usePlace } from "../router.ts";
import { causeOf, similarityMeans, similarityWords, variableName } from "../words.ts";

type Run = Schemas["TimelineRow"];

/** What the runs of a timeline can have in common. */
const commons = ["input", "input_hash", "ipc_id", "system_prompt_hash", "output_hash", "model"];

/** TimelinePage shows the runs of one input in order. Each change has the colour of its cause. */
export function TimelinePage() {
  const place = usePlace();
  const common = [...place.query].find(([name]) => commons.includes(name) || name.startsWith("label:"));
  if (!common) return <><h1>What changed</h1><ChangesNav /><Empty title="This address names no input">Choose one from the unstable inputs.</Empty></>;
  return <PromptNames><Timeline key={common.join(" ")} by={common[0]} value={common[1]} /></PromptNames>;
}

function Timeline({ by, value }: { by: string; value: string }) {
  const place = usePlace();
  const query: OpenQuery = { [by]: value, names: true, text: true, as_of: asOf(place), limit: 25 };
  const pages = usePages("/v1/ledgers/{ledger}/drift/timeline", { ledger: place.ledger }, query);
  const first = pages.rows[0];
  const isInput = by === "input" || by === "input_hash";
  return (
    <>
      <ChangesNav />
      <p class="eyebrow">{isInput ? "one input over time" : `runs with one ${by.startsWith("label:") ? "label" : variableName(by)}`}</p>
      <h1>{isInput ? <Named name={first?.names?.input} hash={value} most={200} /> : by === "system_prompt_hash" ? <Named name={first?.names?.system_prompt} hash={value} most={200} /> : <Line text={/^[0-9a-f]{64}$/.test(value) ? value.slice(0, 10) : value} />}</h1>
      <Listed of={pages} empty={<Empty title="There are no such runs">Check the address. Runs whose state is not live are left out.</Empty>}>
        {(rows) => <Runs rows={rows} more={pages.more !== undefined} isInput={isInput} />}
      </Listed>
    </>
  );
}

function Runs({ rows, more, isInput }: { rows: readonly Run[]; more: boolean; isInput: boolean }) {
  const place = usePlace(), link = useLink();
  const named = letters(rows.map((run) => run.output_hash));
  const first = rows[0];
  return (
    <>
      <p class="lede">{why(rows, more)}</p>
      <Strip runs={rows} letters={named} label="Outputs over time, the oldest first" href={(run) => link("record", [run.seq])} more={0} />
      {isInput && first && <Opens title="The whole input, as it was posted">{() => <RecordText ledger={place.ledger} seq={first.seq} name="payload" label="Input" />}</Opens>}
      <ol class="timeline">{rows.map((run, i) => <Moment key={run.seq} run={run} before={rows[i - 1]} letter={named[i] ?? ""} />)}</ol>
    </>
  );
}

/** Moment is one run of a timeline, with what changed since the run before. */
function Moment({ run, before, letter }: { run: Run; before: Run | undefined; letter: string }) {
  const place = usePlace(), link = useLink();
  const cause = run.cause === null ? undefined : causeOf(run.cause);
  const changed = run.output_changed === true;
  return (
    <li class={changed && cause ? `changed ${cause.class}` : ""}>
      <p class="moment-head">
        {cause === undefined ? <span class="quiet">The first run</span> : <CauseChip cause={run.cause ?? ""} />}
        <StateChip state={run.state} />
        <span class="quiet small"><RecordLink seq={run.seq}><Line text={run.run_id ?? `record ${run.seq}`} most={60} /></RecordLink> · {run.names && <><Line text={run.names.model} most={40} /> · </>}<Time at={run.time} exact /></span>
      </p>
      {run.differences.length > 0 && <Differs differences={run.differences} a={before?.names} b={run.names} />}
      <p class="moment-output"><span class="letter" title={`Output ${letter}`}>{letter}</span> <span class="words"><Named name={run.names?.output} hash={run.output_hash} most={140} /></span></p>
      {cause !== undefined && run.against !== null && (!changed ? <p class="quiet small">The output is the same as before.</p> : (
        <Opens title={<span class="small">{run.text?.similarity === undefined ? "What changed in the text" : <span title={similarityMeans}>{similarityWords(run.text.similarity)}</span>}{run.text?.length_change !== undefined && `; ${longer(run.text.length_change)}`}</span>}>
          {() => (
            <>
              <RecordsCompared ledger={place.ledger} from={run.against ?? 0} to={run.seq} a={<>before · <RecordLink seq={run.against ?? 0} /></>} b={<>after · <RecordLink seq={run.seq} /></>} />
              <p class="small"><a href={link("compare", [], { a: run.against ?? 0, b: run.seq })}>All differences between the two runs</a></p>
            </>
          )}
        </Opens>
      ))}
    </li>
  );
}
