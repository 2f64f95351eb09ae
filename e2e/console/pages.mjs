// The pages of the console. To test a new page and take its picture, add a line here.
//
// at returns the address of the page, from what `known` has found in the ledger. shows is a text that
// the loaded page contains. picture is the name of its picture in docs/console, if it has one.
export const pages = [
  { name: "overview", at: () => "/default", picture: "overview" },
  { name: "overview at an earlier size", at: (of) => `/default?as_of=${of.size}`, shows: "Why outputs changed" },
  { name: "what changed", at: () => "/default/changed", shows: "Changes that happened in this ledger" },
  { name: "what another model changed", at: (of) => `/default/changed?${of.models}`, shows: "the least similar first", picture: "changed" },
  { name: "what another prompt changed", at: (of) => `/default/changed?${of.prompts}`, shows: "The two prompts" },
  { name: "unstable inputs", at: () => "/default/unstable", shows: "different output", picture: "unstable" },
  { name: "one input over time", at: (of) => `/default/timeline?input=${of.input}`, shows: "The first run", picture: "timeline" },
  { name: "two records", at: (of) => `/default/compare?a=${of.before}&b=${of.after}`, shows: "Conditions of the two records", picture: "compare" },
  { name: "two records that are not chosen yet", at: () => "/default/compare", shows: "Choose two generations" },
  { name: "records", at: () => "/default/records", shows: "All records", picture: "records" },
  { name: "records of a kind", at: () => "/default/records?kind=run_dag", shows: "Only records of the kind" },
  { name: "runs", at: () => "/default/runs", shows: "Questions with several runs", picture: "runs" },
  { name: "all questions", at: () => "/default/runs?every=true", shows: "Failures by stage" },
  { name: "the runs of a question", at: (of) => `/default/runs/${of.question}`, shows: "All runs of this question" },
  { name: "an answer run", at: (of) => `/default/run-dag/${of.run_dag}`, shows: "What the run claims" },
  { name: "two answer runs", at: (of) => `/default/run-dag/${of.left}?beside=${of.right}`, shows: "The answers", picture: "run-dag" },
  { name: "changed passages", at: () => "/default/citations", shows: "Citations" },
  { name: "all answers", at: () => "/default/citations?view=answers", shows: "Subject", picture: "citations" },
  { name: "conflicts of citations", at: () => "/default/citations?view=conflicts", shows: "Citations" },
  { name: "registered sources", at: () => "/default/citations?view=sources", shows: "Citations" },
  { name: "the citations of an answer", at: (of) => `/default/citations/${of.citation_set}`, shows: "answer", picture: "citation-set" },
  { name: "a source", at: (of) => `/default/source/${encodeURIComponent(of.source)}`, shows: "Answers that cite it", picture: "source" },
  { name: "a subject", at: (of) => `/default/subject/${encodeURIComponent(of.subject)}`, shows: "Answers about this subject", picture: "subject" },
  { name: "a passage", at: (of) => `/default/passage/${of.passage}`, shows: "Answers that cite it", picture: "passage" },
  { name: "stories", at: () => "/default/stories", shows: "Paths", picture: "stories" },
  { name: "a story", at: (of) => `/default/stories/${encodeURIComponent(of.project)}`, shows: "build", picture: "story" },
  { name: "a path over time", at: (of) => `/default/stories/${encodeURIComponent(of.project)}/${of.path}`, shows: "path of", picture: "path" },
  { name: "search", at: () => "/default/search", shows: "What you can search for" },
  { name: "search with hits", at: (of) => `/default/search?q=${encodeURIComponent(of.words)}`, shows: "Prompts, inputs, and questions", picture: "search" },
  { name: "search without an answer", at: () => "/default/search?q=zzzz-nothing-has-this", shows: "Nothing was found" },
  { name: "a generation", at: (of) => `/default/record/${of.after}`, shows: "Compare the two", picture: "record" },
  { name: "a run-DAG", at: (of) => `/default/record/${of.run_dag}`, shows: "Its stages, one by one" },
  { name: "a citation set", at: (of) => `/default/record/${of.citation_set}`, shows: "What it rests on" },
  { name: "a path of a story", at: (of) => `/default/record/${of.path_fingerprint}`, shows: "Passage" },
  { name: "the first event", at: () => "/default/record/0", shows: "Proof" },
  { name: "a record at an earlier size", at: (of) => `/default/record/${of.ipc_record}?as_of=${of.size}`, shows: "Show the newest" },
  { name: "a record that does not exist", at: () => "/default/record/99999999", shows: "There is nothing here" },
  { name: "a run", at: (of) => `/default/run/${encodeURIComponent(of.run)}`, shows: "Recorded", picture: "run" },
  { name: "a page that does not exist", at: () => "/default/nowhere", shows: "There is no such page" },
  { name: "sign in", at: () => "/-/sign-in", shows: "Sign in" },
];

/** Finds in a server's ledger what the addresses of the pages refer to, such as an input with several outputs. */
export async function known(server) {
  const of = { size: (await server.get("/stats")).as_of };
  for (const kind of ["ipc_record", "run_dag", "citation_set", "path_fingerprint"]) {
    const { rows } = await server.get(`/records?kind=${kind}&limit=60`);
    const one = rows[Math.floor(rows.length / 2)];
    of[kind] = one.seq;
    if (kind === "run_dag") of.run = one.run_id; // its run has several records
  }
  const payload = await (await fetch(`${server.ledger}/records/${of.ipc_record}/content/payload`)).json();
  of.words = String(payload.instruction).split(" ").slice(0, 3).join(" ");

  // Among the runs of the least stable inputs, find outputs that changed when only the model changed, or only the
  // prompt. Of each variable, take the two values with the most pairs.
  const inputs = (await server.get("/drift/groups?by=input&min_outputs=2&sort=stability&limit=20")).rows;
  of.input = inputs[0]?.value;
  const found = new Map();
  for (const input of inputs) {
    for (const run of (await server.get(`/drift/timeline?input=${input.value}&limit=50`)).rows) {
      const variable = run.output_changed && run.differences.length === 1 ? run.differences[0].variable : "";
      if (variable === "model" || variable === "system_prompt") {
        const query = effect(variable === "model" ? "model" : "system_prompt_hash", run);
        if (!found.has(`${query}`)) found.set(`${query}`, { variable, query, input: input.value, run });
      }
    }
  }
  const most = { model: 0, system_prompt: 0 };
  for (const { variable, query, input, run } of found.values()) {
    const { pairs } = await server.get(`/drift/effects?${query}&totals=first&limit=1`);
    if (pairs <= most[variable]) continue;
    most[variable] = pairs;
    Object.assign(of, variable === "model" ? { models: query, input, before: run.against, after: run.seq } : { prompts: query });
  }

  const [question] = (await server.get("/run-dags/groups?by=question_hash&min_runs=2&limit=1")).rows;
  of.question = question?.value;
  const runs = (await server.get(`/run-dags/divergence?question_hash=${of.question}&state=any&limit=50`)).rows;
  const second = runs.find((row) => row.against !== null && row.first_diverging_stage !== null) ?? runs.find((row) => row.against !== null);
  Object.assign(of, { left: second?.against, right: second?.seq });

  const set = (await server.get(`/records/${of.citation_set}`)).event.record;
  Object.assign(of, { subject: set.subject, source: set.citations[0].source_id, passage: set.citations[0].chunk_hash });
  of.project = (await server.get("/paths?limit=1")).rows[0]?.project;
  of.path = (await server.get(`/paths/${encodeURIComponent(of.project)}?limit=1`)).rows[0]?.path_id;
  for (const name of ["models", "prompts", "input", "before", "after", "question", "left", "right", "subject", "source", "passage", "project", "path"]) {
    if (of[name] === undefined) throw new Error(`the ledger has nothing for "${name}": ${JSON.stringify(of)}`);
  }
  return of;
}

/** Returns the query of the page that shows what a change of one variable did. */
function effect(variable, run) {
  const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));
  return new URLSearchParams({ variable, a: text(run.differences[0].a), b: text(run.differences[0].b) });
}
