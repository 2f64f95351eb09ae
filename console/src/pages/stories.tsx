import { usePages } from "../api/load.ts";
import { asOf, useLink, usePlace } from "../router.ts";
import { PathHistory, Story } from "../parts/story.tsx";
import { Empty } from "../parts/states.tsx";
import { Listed, Table } from "../parts/table.tsx";
import { Raw } from "../parts/text.tsx";
import { number } from "../words.ts";

/** StoriesPage lists the stories, or shows one, or one path of it. */
export function StoriesPage() {
  const [project, path] = usePlace().rest;
  if (project === undefined) return <Stories />;
  return path === undefined ? <Story project={project} /> : <PathHistory project={project} path={path} />;
}

function Stories() {
  const place = usePlace(), link = useLink();
  const pages = usePages("/v1/ledgers/{ledger}/paths", { ledger: place.ledger }, { as_of: asOf(place), limit: 50 });
  return (
    <>
      <h1>Stories</h1>
      <p>A story with choices has many paths. Each build records the text along every path, so that you can see which passages an edit changed.</p>
      <Listed of={pages} empty={<Empty title="No story is recorded yet">This page shows path fingerprints. Post some to <code>/path-fingerprints</code>, or import a file of them with <code>colophon import</code>.</Empty>}>
        {(rows) => <Table label="Stories" rows={rows} keyOf={(row) => row.project} columns={[
          { title: "Story", class: "wide", cell: (row) => <a class="words" href={link("stories", [row.project])}><Raw text={row.project} /></a> },
          { title: "Paths", class: "number", cell: (row) => number(row.paths) },
          { title: "Builds", class: "number", cell: (row) => number(row.builds) },
        ]} />}
      </Listed>
    </>
  );
}
