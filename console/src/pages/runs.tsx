import { useMemo } from "preact/hooks";
import type { Schemas } from "../api/client.ts";
import { useGet, useLoad, usePages } from "../api/load.ts";
import { content, isWithheld } from "../api/client.ts";
import { asOf, useLink, usePlace, withQuery } from "../router.ts";
import { TimeChart } from "../parts/chart.tsx";
import { AsOf, StateChip } from "../parts/marks.tsx";
import { Named } from "../parts/name.tsx";
import { AnswerText, RunClaims, RunsBeside, RunStages, useRun } from "../parts/runs.tsx";
import { dimensionName, outcome, shortCause, stageWords, verdict } from "../parts/stages.ts";
import { Empty, Failed, Loads } from "../parts/states.tsx";
import { Listed, Table } from "../parts/table.tsx";
import { Line, Text } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { count, listed, number, percent } from "../words.ts";

/** RunsPage lists the questions that runs answered, or shows the runs of one. */
export function RunsPage() {
  const question = usePlace().rest[0];
  return question === undefined ? <Questions /> : <Question key={question} hash={question} />;
}

type Group = Schemas["RunGroup"];

/** outcomes counts how the runs of a group ended, in words. */
function outcomes(group: Group): string {
  const counts = new Map<string, number>();
  for (const one of group.verdicts) counts.set(outcome(one), (counts.get(outcome(one)) ?? 0) + one.runs);
  if (counts.size === 1) return [...counts.keys()][0] ?? "";
  return listed([...counts].map(([words, n]) => `${number(n)} ${words}`));
}

function Questions() {
  const place = usePlace(), link = useLink();
  const every = place.query.get("every") === "true";
  const pages = usePages("/v1/ledgers/{ledger}/run-dags/groups", { ledger: place.ledger }, { by: "question_hash", names: true, min_runs: every ? 1 : 2, as_of: asOf(place), limit: 25 });
  return (
    <>
      <h1>Runs</h1>
      <p>A run answers a question in stages: it finds passages, builds a prompt, calls a model, and checks the answer. Open a question to see at which stage its runs diverge, and why.</p>
      <ul class="tabs" aria-label="Which questions">
        <li><a href={withQuery(place, { every: undefined })} aria-current={every ? undefined : "page"}>Questions with several runs</a></li>
        <li><a href={withQuery(place, { every: "true" })} aria-current={every ? "page" : undefined}>All questions</a></li>
      </ul>
      <Listed of={pages} empty={every ? <Empty title="No question was answered yet">This page shows run-DAGs. Post some to <code>/run-dags</code>, or import a file of them with <code>colophon import</code>.</Empty>
        : <Empty title="No question has two runs"><a href={withQuery(place, { every: "true" })}>See all questions</a></Empty>}>
        {(rows) => <Table label="Questions" rows={rows} keyOf={(row) => row.value} columns={[
          { title: "Question", class: "wide", cell: (row) => <a class="words" href={link("runs", [row.value])}><Named name={row.name} hash={row.value} most={140} /></a> },
          { title: "Runs", class: "number", cell: (row) => number(row.runs) },
          { title: "Answers", class: "number", cell: (row) => (row.distinct_answers > 1 ? <strong title="The runs gave different answers.">{number(row.distinct_answers)}</strong> : number(row.distinct_answers)) },
          { title: "How they ended", cell: (row) => outcomes(row) },
          { title: "Last run", cell: (row) => <Time at={row.last_time} /> },
        ]} />}
      </Listed>
      <Failures />
    </>
  );
}

const failureColours: Record<string, string> = { retrieval: "--stage-retrieval", context: "--stage-context", answer: "--stage-answer", rejected: "--stage-rejected", other: "--stage-other" };

type Count = Schemas["OutcomeCount"];

/** endOf is the name under which the chart counts a run, or undefined if it did not fail. */
function endOf(one: Count): string | undefined {
  return one.shape === "reject" ? "rejected" : one.failure_stage === "unknown" ? undefined : one.failure_stage ?? undefined;
}

function endName(end: string): string {
  return end === "rejected" ? "were rejected before an answer" : end === "other" ? "failed at another stage" : `failed at ${stageWords(end).title.toLowerCase()}`;
}

/** Failures shows at which stages runs fail, over time. */
function Failures() {
  const place = usePlace();
  const loading = useGet("/v1/ledgers/{ledger}/run-dags/failures", { ledger: place.ledger }, { periods: true, as_of: asOf(place) });
  return (
    <section>
      <h2>Failures by stage</h2>
      <Loads of={loading} lines={4}>{(counts) => <FailureChart counts={counts} />}</Loads>
    </section>
  );
}

function FailureChart({ counts }: { counts: Schemas["FailureCounts"] }) {
  const ends = useMemo(() => Object.keys(failureColours).filter((end) => counts.rows.some((one) => endOf(one) === end)), [counts]);
  const times = useMemo(() => (counts.periods ?? []).map((period) => Date.parse(period.since) / 1000), [counts]);
  const series = useMemo(() => ends.map((end) => ({
    name: endName(end).replace(/^were /, ""), colour: failureColours[end] ?? "--stage-other",
    values: (counts.periods ?? []).map((period) => period.rows.reduce((n, one) => n + (endOf(one) === end ? one.count : 0), 0)),
  })), [counts, ends]);
  const failed = counts.rows.reduce((n, one) => n + (endOf(one) === undefined ? 0 : one.count), 0);
  const ungrounded = counts.rows.reduce((n, one) => n + (one.shape !== "reject" && one.audit_mode === "UNGROUNDED" ? one.count : 0), 0);
  const answered = counts.rows.reduce((n, one) => n + (one.shape === "reject" ? 0 : one.count), 0);
  if (counts.total === 0) return <Empty title="No run was recorded yet" />;
  return (
    <>
      <p class="sentence">
        {failed === 0 ? `None of ${count(counts.total, "run")} failed. ` : `Of ${count(counts.total, "run")}, ${number(failed)} failed (${percent(failed / counts.total)}): ${listed(ends.map((end) => `${number(counts.rows.reduce((n, one) => n + (endOf(one) === end ? one.count : 0), 0))} ${endName(end)}`))}. `}
        {ungrounded > 0 && `Of the ${count(answered, "run")} that ${answered === 1 ? "was" : "were"} not rejected, ${number(ungrounded)} (${percent(ungrounded / answered)}) ${ungrounded === 1 ? "states" : "state"} the audit mode UNGROUNDED: no part of the answer is verified.`}
      </p>
      {series.length > 0 && times.length > 0 && <TimeChart label="Runs that failed over time, by stage" times={times} series={series} stacked {...(counts.step === undefined ? {} : { step: counts.step })} />}
      <AsOf size={counts.as_of} />
    </>
  );
}

type Row = Schemas["DivergenceRow"];

function Question({ hash }: { hash: string }) {
  const place = usePlace(), link = useLink();
  const pages = usePages("/v1/ledgers/{ledger}/run-dags/divergence", { ledger: place.ledger }, { question_hash: hash, state: "any", as_of: asOf(place), limit: 50 });
  const a = chosen(place.query.get("a")), b = chosen(place.query.get("b"));
  return (
    <Listed of={pages} empty={<Empty title="No run has this question"><a href={link("runs")}>All questions</a></Empty>}>
      {(rows, more) => {
        const diverging = [...rows].reverse().find((row) => row.against !== null && row.first_diverging_stage !== null) ?? [...rows].reverse().find((row) => row.against !== null);
        const right = b ?? diverging?.seq, left = a ?? diverging?.against ?? undefined;
        return (
          <>
            <QuestionHead rows={rows} more={more} />
            {left !== undefined && right !== undefined && left !== right
              ? <RunsBeside ledger={place.ledger} a={left} b={right} />
              : <OnlyRun seq={rows[0]?.seq ?? 0} />}
            {rows.length > 1 && <RunsOf rows={rows} left={left} right={right} />}
          </>
        );
      }}
    </Listed>
  );
}

/** OnlyRun shows the run of a question that has no other one. */
function OnlyRun({ seq }: { seq: number }) {
  const place = usePlace();
  const loading = useRun(place.ledger, seq);
  return <Loads of={loading} lines={8}>{(run) => run && (
    <>
      <p>This question has one run: {verdict(run)}.</p>
      <section><h2>The answer</h2><AnswerText run={run} /></section>
      <RunClaims run={run} />
      <section><h2>The stages</h2><RunStages ledger={place.ledger} run={run} /></section>
    </>
  )}</Loads>;
}

function chosen(text: string | null): number | undefined {
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

function QuestionHead({ rows, more }: { rows: readonly Row[]; more: boolean }) {
  const place = usePlace();
  const seq = rows[0]?.seq ?? 0;
  const loading = useLoad(`${place.ledger} ${seq} question`, (signal) => content(place.ledger, seq, "question", signal));
  return (
    <header class="page-head">
      <p class="eyebrow">question · {more ? `its first ${count(rows.length, "run")}` : count(rows.length, "run")}</p>
      {loading.state === "ready" ? (
        <>
          <h1><Line text={loading.value.text} most={160} /></h1>
          {loading.value.text.length > 160 && <Text text={loading.value.text} valid={loading.value.valid} label="The question" />}
        </>
      ) : loading.state === "loading" ? <h1 class="quiet">…</h1> : <><h1>{unreadable(loading.problem.status)}</h1>{!isWithheld(loading.problem) && <Failed problem={loading.problem} again={loading.again} />}</>}
    </header>
  );
}

function unreadable(status: number): string {
  return status === 410 ? "A question whose text was erased" : status === 404 ? "A question whose text is not in the ledger" : status === 403 ? "A question whose text you cannot read" : "A question";
}

/** RunsOf lists the runs of a question, and lets a person choose the two that are compared. */
function RunsOf({ rows, left, right }: { rows: readonly Row[]; left: number | undefined; right: number | undefined }) {
  const place = usePlace(), link = useLink();
  return (
    <section>
      <h2>All runs of this question</h2>
      <Table label="Runs of this question" rows={rows} keyOf={(row) => row.seq} columns={[
        { title: "Run", cell: (row) => <><a href={link("run-dag", [row.seq])}>{row.run_id === null ? `answer run ${number(row.seq)}` : <Line text={row.run_id} most={50} />}</a> <StateChip state={row.state} /></> },
        { title: "Recorded", cell: (row) => <Time at={row.time} /> },
        { title: "Compared with the previous run", class: "wide", cell: (row) => <Change row={row} /> },
        { title: "Compare", cell: (row) => (row.against === null ? <span class="quiet">the first run</span> : row.seq === right && row.against === left ? <strong>shown above</strong> : <a href={withQuery(place, { a: row.against, b: row.seq })}>with the previous run</a>) },
      ]} />
    </section>
  );
}

function Change({ row }: { row: Row }) {
  if (row.against === null) return null;
  if (row.first_diverging_stage === null) return <span class="quiet">the same at every stage</span>;
  return <>diverges at <strong>{stageWords(row.first_diverging_stage).title.toLowerCase()}</strong>{row.cause && row.cause !== "identical" && <span class="quiet">: {row.cause === "confounded" ? `${listed((row.differing_dimensions ?? []).map(dimensionName))} differ` : shortCause(row.cause)}</span>}</>;
}

