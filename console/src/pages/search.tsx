import { useEffect, useRef } from "preact/hooks";
import { useGet } from "../api/load.ts";
import { asOf, useLink, usePlace } from "../router.ts";
import { AsOf } from "../parts/marks.tsx";
import { useMay } from "../parts/may.ts";
import { groupOf, groupOrder, isHash, namesItself, target, titleOf } from "../parts/hits.ts";
import { Named, type Name } from "../parts/name.tsx";
import { Empty, Loads } from "../parts/states.tsx";
import { Line } from "../parts/text.tsx";
import { count, number, shortHash } from "../words.ts";

/** SearchPage says what a text can mean in the ledger. */
export function SearchPage() {
  const place = usePlace();
  const asked = (place.query.get("q") ?? "").trim();
  if (asked === "") return <><h1>Search</h1><Help /></>;
  return (
    <>
      <p class="eyebrow">search</p>
      <h1>“<Line text={asked} most={120} />”</h1>
      <Found text={asked} />
    </>
  );
}

function Help() {
  const mayRead = useMay("content");
  return (
    <section class="why">
      <h2>What you can search for</h2>
      <dl class="ways">
        <div><dt>Words</dt><dd>{!mayRead && "with a token that permits reading texts, which yours does not: "}the beginning of a prompt, an input, or a question, or any word in its first lines; outputs, answers, and the passages of sources and stories are not searched</dd></div>
        <div><dt>Names</dt><dd>a run, a model, a label (<code>config=verbose</code>, or just the value), a story, a source, a subject, a producer</dd></div>
        <div><dt>Numbers</dt><dd>the number of an event in the log</dd></div>
        <div><dt>Hashes</dt><dd>any hash in a record, in full or by its first 8 or more digits</dd></div>
      </dl>
      <p class="quiet">Press <kbd>/</kbd> anywhere to search, <kbd>↓</kbd> and <kbd>↑</kbd> to move through the results, and <kbd>Enter</kbd> to open one.</p>
    </section>
  );
}

/** useArrows moves the focus through the links of a list with the arrow keys. */
function useArrows() {
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const move = (event: KeyboardEvent) => {
      const down = event.key === "ArrowDown";
      if ((!down && event.key !== "ArrowUp") || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
      const links = [...(list.current?.querySelectorAll<HTMLElement>("a.hit") ?? [])];
      const at = links.findIndex((link) => link === document.activeElement);
      if (at < 0 && event.target instanceof HTMLElement && /^(TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
      const to = at < 0 ? (down ? links[0] : undefined) : at === 0 && !down ? document.getElementById("search") : links[at + (down ? 1 : -1)];
      if (!to) return;
      event.preventDefault();
      to.focus();
    };
    addEventListener("keydown", move);
    return () => removeEventListener("keydown", move);
  }, []);
  return list;
}

function Found({ text }: { text: string }) {
  const place = usePlace();
  const loading = useGet("/v1/ledgers/{ledger}/search", { ledger: place.ledger }, { q: text, as_of: asOf(place) });
  const list = useArrows(), mayRead = useMay("content");
  return (
    <Loads of={loading} lines={6}>
      {(answer) => (
        <>
          <p class="quiet" role="status">{answer.rows.length === 0 ? "Nothing was found." : `${count(answer.rows.length, "match", "matches")}.`}</p>
          {answer.rows.length === 0 && !mayRead && <Empty title="Nothing in this ledger has this name or hash">
            Check the spelling. Enter at least 8 digits of a hash. Your token does not permit reading texts, so the search did not look for words in them.
          </Empty>}
          {answer.rows.length === 0 && mayRead && <Empty title="Nothing in this ledger has this name or hash, or begins with these words">
            Check the spelling. Enter at least 8 digits of a hash. Words are found only at the beginning of prompts, inputs, and questions, not in outputs, answers, or passages. {!answer.complete && "This ledger has more texts than a search reads: it reads the newest 250 prompts, inputs, and questions. The full name of a run, a label, or a hash finds any record."}
          </Empty>}
          <div class="hits" ref={list}>
            {groupOrder.map((title) => {
              const hits = answer.rows.filter((hit) => groupOf(hit.type) === title);
              return hits.length === 0 ? null : (
                <section key={title}>
                  <h2>{title}</h2>
                  <ul class="plain-list">{hits.map((hit) => <HitRow key={`${hit.type} ${hit.value}`} hit={hit} />)}</ul>
                </section>
              );
            })}
          </div>
          {!answer.complete && answer.rows.length > 0 && <p class="note">There may be more matches: a search looks only at the newest texts and names. A full name or hash finds every match.</p>}
          <AsOf size={answer.as_of} />
        </>
      )}
    </Loads>
  );
}

function HitRow({ hit }: { hit: { type: string; value: string; seq: number; name?: Name } }) {
  const link = useLink();
  const named = hit.name?.words !== undefined || hit.name?.label !== undefined;
  const numbered = hit.type === "event" || hit.type === "event_hash";
  return (
    <li>
      <a class="hit" href={target(link, hit)}>
        <span class="hit-kind">{titleOf(hit.type)}{numbered && ` ${number(hit.seq)}`}</span>
        <span class="hit-name">{isHash(hit.type) || numbered ? <Named name={hit.name} hash={hit.value} /> : <><strong><Line text={hit.value} /></strong>{named && !namesItself(hit.type) && <span class="quiet small"> as in <Named name={hit.name} /></span>}</>}</span>
        {isHash(hit.type) && named && <code class="hit-hash" title={hit.value}>{shortHash(hit.value)}</code>}
      </a>
    </li>
  );
}
