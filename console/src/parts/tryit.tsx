// Try it: on an empty ledger, one click loads the small example of the server.
import { useState } from "preact/hooks";
import { address, get, Problem, request } from "../api/client.ts";
import { problemOf, useLoad } from "../api/load.ts";
import { signInSettings } from "../api/signin.ts";
import { count } from "../words.ts";
import { useLedger, useMay } from "./may.ts";
import { Empty } from "./states.tsx";

/** small is the tree size up to which a ledger can be without records: it has only events of its own, such as changes of its key. */
const small = 50;

/** TryIt offers the example on a ledger without records. Otherwise it shows nothing. */
export function TryIt() {
  const ledger = useLedger();
  return ledger && ledger.tree_size <= small ? <Offer key={ledger.name} ledger={ledger.name} frozen={ledger.frozen} /> : null;
}

function Offer({ ledger, frozen }: { ledger: string; frozen: boolean }) {
  const mayWrite = useMay("write"), mayRead = useMay("read");
  const loading = useLoad(`empty ${ledger}`, async (signal) => {
    if (!mayRead) return { empty: false, writable: false };
    const [stats, settings] = await Promise.all([get("/v1/ledgers/{ledger}/stats", { ledger }, {}, signal), signInSettings()]);
    return { empty: Object.values(stats.records).every((n) => n === 0), writable: !settings.read_only };
  });
  const [says, setSays] = useState<string>();
  const [problem, setProblem] = useState<Problem>();
  if (loading.state !== "ready" || !loading.value.empty) return null;
  if (frozen) return <Empty title="This ledger is empty and frozen">It accepts no records. Choose another ledger.</Empty>;
  if (!loading.value.writable) return <Empty title="This ledger is empty">This server is read-only. Records appear here once the server that writes this ledger has some.</Empty>;
  if (!mayWrite) return <Empty title="This ledger is empty">Records appear here once a program writes some. Your token does not permit writing. With the scope <code>write</code>, this page offers a small example.</Empty>;
  const load = () => {
    setProblem(undefined);
    setSays("Loading the example…");
    loadExample(ledger, (n) => setSays(`Loading the example: ${count(n, "record")} written…`)).then(() => location.reload(), (error: unknown) => {
      setSays(undefined);
      setProblem(problemOf(error));
    });
  };
  return (
    <section class="state calm try" aria-labelledby="try-title">
      <h2 id="try-title">This ledger is empty. Try it with a small example?</h2>
      <p>A lighthouse keeper answers letters with two models and two prompts. Some answers rest on a handbook that changed, and a story is built twice.
        The texts are invented. They are part of this program and under its licence.</p>
      <p><strong>A click writes about a hundred records into the ledger <bdi>{ledger}</bdi>.</strong> The log keeps them permanently, so use a test ledger.
        To record your own texts instead, see <a href="docs">the API</a>.</p>
      <p><button type="button" class="primary" disabled={says !== undefined} onClick={load}>Load the example</button> <span role="status">{says}</span></p>
      {problem && <p role="alert" class="says-bad">The example was not loaded: <bdi>{problem.message}</bdi> Try again: records that are already there are not written twice.</p>}
    </section>
  );
}

interface BatchLine {
  seq?: number;
  status?: number;
  detail?: string;
  line?: number;
}

/** loadExample posts the example's lines, and waits until the index has all of them. Each line has an idempotency key: a second time adds nothing. */
async function loadExample(ledger: string, onWritten: (n: number) => void): Promise<void> {
  const lines = await (await request("example.ndjson")).text();
  const response = await request(address("/v1/ledgers/{ledger}/batch", { ledger }), { method: "POST", body: lines, headers: { "Content-Type": "application/x-ndjson" } });
  const answers = (await response.text()).split("\n").filter((text) => text !== "").map((text) => JSON.parse(text) as BatchLine);
  const refused = answers.find((answer) => answer.seq === undefined);
  if (refused) throw new Problem(refused.status ?? -1, "The example was refused", `line ${refused.line ?? 0}: ${refused.detail ?? ""}`);
  onWritten(answers.length);
  const last = Math.max(...answers.map((answer) => answer.seq ?? 0));
  await get("/v1/ledgers/{ledger}/records", { ledger }, { after: last, limit: 1 });
}
