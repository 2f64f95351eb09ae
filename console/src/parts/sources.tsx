// The documents on which runs rest, as passages where a citation set has their texts.
import { content, get, isWithheld, Problem } from "../api/client.ts";
import { lanes, useLoad } from "../api/load.ts";
import { asOf, useLink, usePlace } from "../router.ts";
import { number, shortHash } from "../words.ts";
import type { Scored } from "./stages.ts";
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
    } catch (error) {
      if (!(error instanceof Problem) || !isWithheld(error)) throw error;
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

/** Sources compares the documents of two runs, in the order of each run. If one is undefined, it lists those of the other. */
export function Sources({ ledger, a, b }: { ledger: string; a: readonly Scored[] | undefined; b: readonly Scored[] | undefined }) {
  const left = new Map((a ?? []).map((one, i) => [one.root, { ...one, place: i + 1 }])), right = new Map((b ?? []).map((one, i) => [one.root, { ...one, place: i + 1 }]));
  if (left.size + right.size === 0) return <p class="note">The ledger has only the hash of this stage, because the record names no documents.</p>;
  const gone = [...left.values()].filter((one) => !right.has(one.root)), added = [...right.values()].filter((one) => !left.has(one.root)), kept = [...left.values()].filter((one) => right.has(one.root));
  const moved = kept.filter((one) => right.get(one.root)?.place !== one.place || right.get(one.root)?.score !== one.score);
  if (a === undefined || b === undefined) return <Documents ledger={ledger} title="Passages" list={[...left.values(), ...right.values()]} />;
  return (
    <>
      {gone.length + added.length === 0 && <p>{moved.length === 0 ? "Both runs have the same passages, with the same scores." : `Both runs have the same passages, but ${number(moved.length)} of them ${moved.length === 1 ? "has" : "have"} a different place or score.`}</p>}
      <Documents ledger={ledger} title="Only in the first run" mark="gone" list={gone} />
      <Documents ledger={ledger} title="Only in the second run" mark="new" list={added} />
      <Documents ledger={ledger} title="In both runs" list={kept} other={right} />
    </>
  );
}

type Placed = Scored & { place: number };

function Documents({ ledger, title, mark = "", list, other }: { ledger: string; title: string; mark?: string; list: readonly Placed[]; other?: ReadonlyMap<string, Placed> }) {
  if (list.length === 0) return null;
  return (
    <div class={`sources ${mark}`}>
      <p class="small quiet">{title}: {number(list.length)}</p>
      <ul class="plain-list">{list.slice(0, shown).map((one) => {
        const then = other?.get(one.root);
        return (
          <li key={one.root}><Passage ledger={ledger} hash={one.root} />
            {one.score !== undefined && <span class="quiet small"> · score {one.score}{then && then.score !== undefined && then.score !== one.score && `, then ${then.score}`}</span>}
            {then && then.place !== one.place && <span class="quiet small"> · place {one.place}, then {then.place}</span>}
          </li>
        );
      })}</ul>
      {list.length > shown && <p class="note">and {number(list.length - shown)} more</p>}
    </div>
  );
}
