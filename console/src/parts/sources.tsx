// The documents on which runs rest, as passages where a citation set has their texts.
import { content, get } from "../api/client.ts";
import { lanes, useLoad } from "../api/load.ts";
import { asOf, useLink, usePlace } from "../router.ts";
import { number, shortHash } from "../words.ts";
import { Loads } from "./states.tsx";
import { Line } from "./text.tsx";

const lane = lanes(2), shown = 12;

/** Passage shows a passage by its hash: its text, if any citation set has it. */
export function Passage({ ledger, hash }: { ledger: string; hash: string }) {
  const place = usePlace(), link = useLink();
  const chunk = `sha256:${hash.replace(/^sha256:/, "")}`;
  const loading = useLoad(`${ledger} passage ${chunk} ${asOf(place) ?? ""}`, (signal) => lane(async () => {
    const cited = await get("/v1/ledgers/{ledger}/citation-sets/by-chunk/{hash}", { ledger, hash: chunk }, { limit: 1, as_of: asOf(place) }, signal);
    const set = cited.rows[0];
    if (!set) return undefined;
    const row = await get("/v1/ledgers/{ledger}/records/{seq}", { ledger, seq: set.seq }, {}, signal);
    const citations = (row.event.record as unknown as { citations: { chunk_hash: string }[] }).citations;
    const at = citations.findIndex((one) => one.chunk_hash === chunk);
    const source = set.citations[0]?.source_id;
    try {
      return { source, text: (await content(ledger, set.seq, `citations/${at}/text`, signal)).text };
    } catch {
      return { source, text: undefined };
    }
  }));
  return (
    <Loads of={loading} lines={1}>
      {(found) => found === undefined ? <code class="quiet" title={hash}>{shortHash(hash)}</code>
        : <a href={link("passage", [chunk])}>{found.text === undefined ? <code>{shortHash(hash)}</code> : <span class="words"><Line text={found.text} most={150} /></span>}{found.source !== undefined && <span class="quiet small"> · <Line text={found.source} most={50} /></span>}</a>}
    </Loads>
  );
}

/** Sources compares the documents of two runs. Their order is not that of the runs. */
export function Sources({ ledger, a = [], b = [] }: { ledger: string; a?: readonly string[] | undefined; b?: readonly string[] | undefined }) {
  const inA = new Set(a), inB = new Set(b);
  const lists: [string, string, string[]][] = [
    ["Only the first run has", "gone", a.filter((one) => !inB.has(one))], ["Only the second run has", "new", b.filter((one) => !inA.has(one))], [a === b ? "It rests on" : "Both have", "", a.filter((one) => inB.has(one))],
  ];
  if (inA.size + inB.size === 0) return <p class="note">The record names no documents.</p>;
  return (
    <>
      {inA.size === inB.size && a.every((one) => inB.has(one)) && a !== b && <p>Both runs have the same passages; their order or their scores differ.</p>}
      {lists.map(([title, mark, list]) => list.length === 0 ? null : (
        <div key={title} class={`sources ${mark}`}>
          <p class="small quiet">{title} {number(list.length)}:</p>
          <ul class="plain-list">{list.slice(0, shown).map((hash) => <li key={hash}><Passage ledger={ledger} hash={hash} /></li>)}</ul>
          {list.length > shown && <p class="note">and {number(list.length - shown)} more</p>}
        </div>
      ))}
    </>
  );
}
