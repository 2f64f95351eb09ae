import { useGet } from "../api/load.ts";
import { usePlace } from "../router.ts";
import { AsOf } from "../parts/marks.tsx";
import { Loads } from "../parts/states.tsx";
import { Time } from "../parts/time.tsx";
import { kinds, number } from "../words.ts";

export function OverviewPage() {
  const place = usePlace();
  const ledger = useGet("/v1/ledgers/{ledger}", { ledger: place.ledger });
  const stats = useGet("/v1/ledgers/{ledger}/stats", { ledger: place.ledger });
  return (
    <>
      <h1>{place.ledger}</h1>
      <Loads of={ledger}>{(one) => <p>{number(one.tree_size)} events; the newest <Time at={one.last_event} />.</p>}</Loads>
      <Loads of={stats}>{(counted) => (
        <>
          <ul class="plain-list">{Object.entries(counted.records).map(([kind, n]) => <li key={kind}>{kinds(n, kind)}</li>)}</ul>
          <AsOf size={counted.as_of} />
        </>
      )}</Loads>
    </>
  );
}
