// A story: its builds, what became of each path between two builds, and the paths that are not validated yet.
import { useEffect, useState } from "preact/hooks";
import { type Schemas } from "../api/client.ts";
import { usePages, type Pages } from "../api/load.ts";
import { asOf, go, useLink, usePlace, withQuery } from "../router.ts";
import { count, listed, number } from "../words.ts";
import { RecordLink } from "./name.tsx";
import { RecordsCompared, RecordText } from "./sidebyside.tsx";
import { Empty } from "./states.tsx";
import { Listed, Table } from "./table.tsx";
import { Line, Raw } from "./text.tsx";
import { Time } from "./time.tsx";
import { segments, treeOf, treeRows } from "./tree.ts";
import { Validate } from "./validate.tsx";

type Build = Schemas["PathBuild"];
type Difference = Schemas["PathDifference"];

const onePage = 300; // rows of a comparison

const statuses = ["new", "modified", "unchanged", "gone"] as const;
const statusWords: Record<string, string> = { new: "new", modified: "modified", unchanged: "unchanged", gone: "gone", incomparable: "not comparable" };

function Status({ status }: { status: string }) {
  return <span class={`chip path-${status}`}>{statusWords[status] ?? status}</span>;
}

export function Story({ project }: { project: string }) {
  const place = usePlace();
  const pages = usePages("/v1/ledgers/{ledger}/paths/{project}/builds", { ledger: place.ledger, project }, { as_of: asOf(place), limit: 200 });
  useRest(pages); // the newest build comes last
  return (
    <>
      <p class="eyebrow">story</p>
      <h1><Raw text={project} /></h1>
      <Listed of={pages} empty={<Empty title="This story has no builds">Its records name no build, so there is nothing to compare. Add the member <code>build</code> to each record.</Empty>}>
        {(rows, more) => more ? <p class="quiet" role="status">{count(rows.length, "build")} loaded so far…</p> : <Builds project={project} builds={rows} />}
      </Listed>
    </>
  );
}

/** useRest loads the further pages of a list one after the other, until `most` rows are there. */
function useRest({ more, busy, problem, rows }: Pick<Pages<{ as_of: number; rows: unknown[] }>, "more" | "busy" | "problem" | "rows">, most = Infinity): void {
  useEffect(() => {
    if (more && !busy && !problem && rows.length < most) more();
  }, [rows.length, busy, more === undefined]);
}

function Builds({ project, builds }: { project: string; builds: readonly Build[] }) {
  const place = usePlace();
  const last = builds.at(-1);
  const asked = place.query.get("b");
  const b = asked === null ? last : builds.find((one) => one.build === asked);
  const a = place.query.get("a") ?? b?.base ?? undefined;
  const most = Math.max(1, ...builds.map((one) => one.new + one.modified + one.unchanged + (one.incomparable ?? 0) + one.gone));
  return (
    <>
      <section>
        <h2>Builds</h2>
        <ul class="legend" aria-hidden="true">{statuses.map((status) => <li key={status}><i class={`swatch path-${status}`} />{statusWords[status]}</li>)}</ul>
        <ol class="builds">{builds.map((one) => <BuildBar key={one.build} build={one} most={most} chosen={one.build === b?.build} />)}</ol>
      </section>
      {!b && <Empty title="This story has no such build">Choose one of the builds above.</Empty>}
      {b && <section>
        <form class="row" onSubmit={(event) => event.preventDefault()}>
          <label>From<select value={a ?? ""} onChange={(event) => go(withQuery(place, { a: event.currentTarget.value, b: b.build, status: undefined }))}>
            {a === undefined && <option value="">no build before it</option>}
            {builds.filter((one) => one.build !== b.build).map((one) => <option key={one.build} value={one.build}>{one.build}</option>)}
          </select></label>
          <label>To<select value={b.build} onChange={(event) => go(withQuery(place, { a: undefined, b: event.currentTarget.value, status: undefined }))}>
            {builds.map((one) => <option key={one.build} value={one.build}>{one.build}</option>)}
          </select></label>
        </form>
        {a === undefined ? <FirstBuild project={project} build={b} /> : <Between key={`${a} ${b.build}`} project={project} a={a} b={b} />}
      </section>}
      {b && <Unvalidated key={b.build} project={project} build={b.build} />}
    </>
  );
}

function BuildBar({ build, most, chosen }: { build: Build; most: number; chosen: boolean }) {
  const place = usePlace();
  const values = [...statuses.map((name) => ({ name: name, value: build[name] })), { name: "incomparable", value: build.incomparable ?? 0 }];
  const said = listed(values.filter((one) => one.value > 0).map((one) => `${number(one.value)} ${statusWords[one.name] ?? one.name}`));
  return (
    <li>
      <a class="build" href={withQuery(place, { b: build.build, a: undefined, status: undefined })} aria-current={chosen ? "true" : undefined}>
        <span class="build-name"><Line text={build.build} most={40} />{build.branch !== null && <span class="quiet small"> <Line text={build.branch} most={20} /></span>}<span class="build-time quiet small"><Time at={build.time} exact /></span></span>
        <svg class="build-bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
          {segments(values, most).map((one) => <rect key={one.name} class={`path-${one.name}`} x={one.from * 100} width={Math.max(0.3, one.share * 100 - 0.25)} y={0} height={10} />)}
        </svg>
        <span class="build-said small">{said || "no paths"}</span>
      </a>
    </li>
  );
}

function FirstBuild({ project, build }: { project: string; build: Build }) {
  const place = usePlace();
  const pages = usePages("/v1/ledgers/{ledger}/paths/{project}", { ledger: place.ledger, project }, { build: build.build, as_of: asOf(place), limit: 200 });
  return (
    <>
      <p class="sentence">This build has no base to compare it with: {build.paths === 1 ? "its one path is" : `its ${count(build.paths, "path")} are all`} new.</p>
      <Listed of={pages} empty={<Empty title="This build has no paths" />}>
        {(rows) => <Tree project={project} rows={rows.map((row) => ({ ...row, status: "new" as const, links_changed: false, renamed: [], a: null, b: { ...row } }))} />}
      </Listed>
    </>
  );
}

/** Between shows what became of each path from one build to another. */
function Between({ project, a, b }: { project: string; a: string; b: Build }) {
  const place = usePlace();
  const status = place.query.get("status") ?? "";
  const pages = usePages("/v1/ledgers/{ledger}/paths/{project}/compare", { ledger: place.ledger, project }, { a, b: b.build, status: status || undefined, as_of: asOf(place), limit: onePage });
  // A page can end early, for example after the paths of the second build. The rest of one page of rows follows by itself.
  useRest(pages, onePage);
  const counted = new Map<string, number>();
  for (const row of pages.rows) counted.set(row.status, (counted.get(row.status) ?? 0) + 1);
  const whole = status === "" && pages.first.state === "ready" && pages.more === undefined;
  // The server counts the paths of a build against its base. Other builds are counted here, once every row is loaded.
  const counts = a === b.base ? new Map<string, number>([...statuses.map((one): [string, number] => [one, b[one]]), ["incomparable", b.incomparable ?? 0]]) : whole ? counted : undefined;
  const numbers = new Map<string, number>(counts ? [["", [...counts.values()].reduce((sum, n) => sum + n, 0)], ...statuses.map((one): [string, number] => [one, counts.get(one) ?? 0])] : []);
  const said = a === b.base ? statuses.filter((one) => b[one] > 0).map((one) => `${number(b[one])} ${one}`)
    : [...counted].map(([one, n]) => `${number(n)} ${statusWords[one] ?? one}`);
  return (
    <>
      <p class="sentence">From <strong><Line text={a} most={40} /></strong> to <strong><Line text={b.build} most={40} /></strong>{whole || a === b.base ? said.length === 0 ? ", nothing changed." : `: ${listed(said)}.` : ":"}</p>
      <ul class="tabs small" aria-label="Which paths">{["", ...statuses].map((one) => <li key={one}><a href={withQuery(place, { status: one })} aria-current={one === status ? "page" : undefined}>{one === "" ? "all" : statusWords[one]}{numbers.has(one) && ` (${number(numbers.get(one) ?? 0)})`}</a></li>)}</ul>
      <div class="once"><Listed of={pages} empty={<Empty title={status === "" ? "There is no path in either build" : `No path is ${statusWords[status] ?? status}`}>Choose another status, or other builds.</Empty>}>
        {(rows) => <Tree project={project} rows={rows} />}
      </Listed></div>
    </>
  );
}

/** Tree shows paths as the choices that a reader has. */
function Tree({ project, rows }: { project: string; rows: readonly Difference[] }) {
  return <ol class="tree">{treeRows(treeOf(rows)).map((one, i) => <TreeLine key={one.row?.path_id ?? `passage ${i}`} project={project} depth={one.depth} names={one.names} row={one.row} />)}</ol>;
}

function TreeLine({ project, depth, names, row }: { project: string; depth: number; names: readonly string[]; row: Difference | undefined }) {
  const [open, setOpen] = useState(false);
  const link = useLink(), place = usePlace();
  const title = <span class="tree-name">{names.slice(-6).map((name, i) => <span key={i}>{i > 0 && <span class="quiet"> → </span>}<Line text={name} most={60} /></span>)}</span>;
  const indent = { "--depth": Math.min(depth, 12) };
  if (!row) return <li class="tree-passage" style={indent}>{names.length > 6 && <span class="quiet">… → </span>}{title}</li>;
  const seq = row.b?.seq ?? row.a?.seq ?? row.seq;
  return (
    <li class={`tree-path tree-${row.status}`} style={indent}>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>{names.length > 6 && <span class="quiet">… → </span>}{title} <Status status={row.status} />{row.b?.validated && <span class="validated" title="validated"> ✓ validated</span>}</summary>
        {open && (
          <div class="tree-inside">
            {row.renamed.length > 0 && <p class="note">{row.status === "gone" ? "The same text is now at " : "The same text was at "}{row.renamed.map((one) => <span key={one.seq}><RecordLink seq={one.seq}><Line text={one.route.join(" → ")} most={120} /></RecordLink> </span>)}</p>}
            {row.links_changed && <p class="note">The links of the passage changed.</p>}
            {row.status === "modified" && row.a && row.b ? <RecordsCompared ledger={place.ledger} from={row.a.seq} to={row.b.seq} of="passage" a="before" b="after" /> : <RecordText ledger={place.ledger} seq={seq} name="content" label="The text along this path" />}
            <p class="small"><a href={link("stories", [project, row.path_id])}>History of this path</a> · <RecordLink seq={seq}>Its record</RecordLink></p>
          </div>
        )}
      </details>
    </li>
  );
}

/** Unvalidated lists the paths of a build that are not validated, and validates them. */
function Unvalidated({ project, build }: { project: string; build: string }) {
  const place = usePlace();
  const [open, setOpen] = useState(place.query.get("unvalidated") === "true");
  return (
    <section>
      <h2>Not validated</h2>
      <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>Show the paths of <Line text={build} most={40} /> that have not been read and validated yet</summary>
        {open && <div class="once"><UnvalidatedList project={project} build={build} /></div>}
      </details>
    </section>
  );
}

function UnvalidatedList({ project, build }: { project: string; build: string }) {
  const place = usePlace();
  const pages = usePages("/v1/ledgers/{ledger}/paths/{project}", { ledger: place.ledger, project }, { build, validated: "false", as_of: asOf(place), limit: 25 });
  return (
    <Listed of={pages} empty={<Empty title="Every path of this build is validated" />}>
      {(rows) => <ol class="plain-list unvalidated">{rows.map((row) => <ToValidate key={row.path_id} project={project} build={build} row={row} />)}</ol>}
    </Listed>
  );
}

function ToValidate({ project, build, row }: { project: string; build: string; row: Schemas["PathRow"] }) {
  const place = usePlace(), link = useLink();
  const [open, setOpen] = useState(false);
  return (
    <li>
      <p><a class="words" href={link("stories", [project, row.path_id])}><Line text={row.route.join(" → ")} most={140} /></a> <Status status={row.category} /></p>
      <details class="small" onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>Read the text</summary>
        {open && <RecordText ledger={place.ledger} seq={row.seq} name="content" label="The text along this path" />}
      </details>
      <Validate ledger={place.ledger} project={project} path={row.path_id} build={build} fingerprint={row.content_fingerprint} />
    </li>
  );
}

/** PathHistory shows what each build did to one path. */
export function PathHistory({ project, path }: { project: string; path: string }) {
  const place = usePlace(), link = useLink();
  const pages = usePages("/v1/ledgers/{ledger}/paths/{project}/{path_id}", { ledger: place.ledger, project, path_id: path }, { as_of: asOf(place), limit: 200 });
  useRest(pages); // the newest text comes last
  const named = [...pages.rows].reverse().find((row) => row.route !== undefined);
  const lastRecord = pages.rows.at(-1);
  const previous = new Map<number, number>();
  let before: number | undefined;
  for (const row of pages.rows) {
    if (row.kind !== "path_fingerprint") continue;
    if (before !== undefined) previous.set(row.seq, before);
    before = row.seq;
  }
  return (
    <>
      <p class="eyebrow">path of <a href={link("stories", [project])}><Line text={project} most={60} /></a></p>
      <h1>{named?.route ? <Raw text={named.route.join(" → ")} /> : `Path ${path}`}</h1>
      <Listed of={pages} empty={<Empty title="There is no such path"><a href={link("stories", [project])}>See the story</a></Empty>}>
        {(rows, more) => (
          <>
            <Table label="History of this path" rows={rows} keyOf={(row) => row.seq} columns={[
              { title: "Build", cell: (row) => (row.build ? <a href={link("stories", [project], { b: row.build })}><Line text={row.build} most={40} /></a> : row.kind === "path_validated" ? "" : <span class="quiet">no build</span>) },
              { title: "What happened", cell: (row) => (row.kind === "path_validated" ? <>{row.validated ? <span class="validated">✓ validated</span> : "validation withdrawn"}{row.reason && <span class="quiet">: <Line text={row.reason} most={160} /></span>}</> : <Status status={row.category} />) },
              { title: "Recorded", cell: (row) => <Time at={row.time} exact /> },
              { title: "Event", cell: (row) => <RecordLink seq={row.seq}>{number(row.seq)}</RecordLink> },
            ]} />
            {rows.filter((row) => row.category === "modified" && row.kind === "path_fingerprint" && previous.has(row.seq)).slice(-3).reverse().map((row) => (
              <section key={row.seq}>
                <h2>What {row.build ? <Line text={row.build} most={40} /> : `event ${number(row.seq)}`} changed</h2>
                <RecordsCompared ledger={place.ledger} from={previous.get(row.seq) ?? row.seq} to={row.seq} of="passage" a="before" b="after" />
              </section>
            ))}
            {lastRecord && !more && <section><h2>The text now</h2><RecordText ledger={place.ledger} seq={lastRecord.record_seq} name="content" label="The text along this path" />
              {lastRecord.validated ? <p class="validated">✓ validated</p> : <Validate ledger={place.ledger} project={project} path={path} fingerprint={lastRecord.content_fingerprint} />}</section>}
          </>
        )}
      </Listed>
    </>
  );
}
