// The pages of the console. A new page is one line here: it is then driven, checked, and pictured.
//
// at: its address, from what the ledger has. shows: a text that it has once everything is loaded.
// picture: the name of its picture in docs/console, if it has one.
export const pages = [
  { name: "overview", at: () => "/default", picture: "overview" },
  { name: "what changed", at: () => "/default/changed", picture: "changed" },
  { name: "runs", at: () => "/default/runs", picture: "runs" },
  { name: "citations", at: () => "/default/citations", picture: "citations" },
  { name: "stories", at: () => "/default/stories", picture: "stories" },
  { name: "search", at: (of) => `/default/search?q=${encodeURIComponent(of.words)}`, picture: "search" },
  { name: "search without an answer", at: () => "/default/search?q=zzzz-nothing-has-this" },
  { name: "a generation", at: (of) => `/default/record/${of.ipc_record}`, shows: "Conditions", picture: "record" },
  { name: "a run-DAG", at: (of) => `/default/record/${of.run_dag}`, shows: "Proof" },
  { name: "a citation set", at: (of) => `/default/record/${of.citation_set}`, shows: "What it rests on" },
  { name: "a path of a story", at: (of) => `/default/record/${of.path_fingerprint}`, shows: "Passage" },
  { name: "the first event", at: () => "/default/record/0", shows: "Proof" },
  { name: "a record at an earlier size", at: (of) => `/default/record/${of.ipc_record}?as_of=${of.size}`, shows: "Show the newest" },
  { name: "a record that does not exist", at: () => "/default/record/99999999", shows: "There is nothing here" },
  { name: "a run", at: (of) => `/default/run/${encodeURIComponent(of.run)}`, shows: "run" },
  { name: "a page that does not exist", at: () => "/default/nowhere", shows: "There is no such page" },
  { name: "sign in", at: () => "/-/sign-in", shows: "Sign in" },
];

/** known returns what the addresses of the pages name, of a server's ledger. */
export async function known(server) {
  const of = { size: (await server.get("/stats")).as_of };
  for (const kind of ["ipc_record", "run_dag", "citation_set", "path_fingerprint"]) {
    const { rows } = await server.get(`/records?kind=${kind}&limit=60`);
    const one = rows[Math.floor(rows.length / 2)];
    of[kind] = one.seq;
    of.run ??= one.run_id;
  }
  const payload = await (await fetch(`${server.ledger}/records/${of.ipc_record}/content/payload`)).json();
  of.words = String(payload.instruction).split(" ").slice(0, 3).join(" ");
  return of;
}
