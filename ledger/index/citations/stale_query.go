package citations

import (
	"bytes"
	"context"

	"colophon/ledger/index"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
)

// StaleCitation is a chunk that a set cites and that was superseded later.
type StaleCitation struct {
	Seq       uint64 // seq of the set
	RunID     *string
	Subject   string
	ChunkHash string
	// SupersededBy is the event that superseded the chunk. How is recited, registered, or
	// not_listed.
	SupersededBy uint64
	How          string
}

// Stale returns the stale citations of a source: the latest superseded chunk first, and for
// each chunk the newest set first. A set appears once for each of its superseded chunks.
func Stale(ctx context.Context, v *index.View, source string, page index.Page) (rows []StaleCitation, next []byte, err error) {
	if v.Size() == 0 {
		return nil, nil, nil
	}
	id := rowstore.Identify([]byte(source))
	keys := v.Keys
	prefix := append(keys.Key(nil, supersessions), id[:]...)
	from, below := rowstore.AppendVersion(bytes.Clone(prefix), v.Size()-1), v.Size()
	if page.After != nil {
		if len(page.After) != tailBytes+rowstore.SeqBytes || rowstore.VersionOf(page.After[:rowstore.SeqBytes]) >= v.Size() {
			return nil, nil, index.ErrPosition
		}
		from = append(bytes.Clone(prefix), page.After[:tailBytes]...)
		below, _ = rowstore.DecodeSeq(page.After[tailBytes:])
	}
	b := v.Budget(page)
	for kv, err := range v.Scan(from, append(bytes.Clone(prefix), bytes.Repeat([]byte{0xff}, tailBytes+1)...)) {
		if err != nil {
			return nil, nil, err
		}
		one, err := decodeSupersession(kv.Value)
		if err != nil {
			return nil, nil, err
		}
		tail := kv.Key[len(prefix):]
		rows, below, err = appendStale(ctx, v, rows, source, rowstore.VersionOf(tail[:rowstore.SeqBytes]), &one, min(below, one.to), &b)
		if err != nil {
			return nil, nil, err
		}
		if below > 0 {
			return rows, rowstore.AppendSeq(bytes.Clone(tail), below), nil
		}
		below = v.Size()
	}
	return rows, nil, nil
}

// appendStale appends the citations before event below that one supersession made stale, until
// the budget is spent. If next is not 0, the budget is spent and citations before event next
// remain.
func appendStale(ctx context.Context, v *index.View, rows []StaleCitation, source string, by uint64, one *supersession, below uint64, b *rowstore.Budget) (_ []StaleCitation, next uint64, err error) {
	id := rowstore.Identify([]byte(sourceChunkName), []byte(source), one.chunk)
	for r, err := range v.Descend(records.Postings, id[:], below) {
		if err != nil {
			return nil, 0, err
		}
		if r.Seq < one.from {
			break
		}
		if b.Spent(len(rows)) {
			return rows, r.Seq + 1, nil
		}
		e, err := readSet(ctx, v, r.Seq)
		if err != nil {
			return nil, 0, err
		}
		rows = append(rows, StaleCitation{
			Seq: r.Seq, RunID: index.TextOf(e.RunID()), Subject: string(e.CitationSet().Subject), ChunkHash: string(one.chunk),
			SupersededBy: by, How: supersededHow[one.how],
		})
	}
	return rows, 0, nil
}
