package index

import (
	"bytes"
	"context"
)

// StaleCitation is a chunk that a set cites and that was superseded after it.
type StaleCitation struct {
	Seq       uint64 // of the set
	RunID     *string
	Subject   string
	ChunkHash string
	// SupersededBy is the event that superseded the chunk, and How the way: recited,
	// registered or not_listed.
	SupersededBy uint64
	How          string
}

// Stale are the citations of a source that are stale: what was superseded last comes
// first, and of one chunk that was superseded the newest set. A set comes again for
// every chunk of it that was superseded.
func (v *View) Stale(ctx context.Context, source string, page Page) (rows []StaleCitation, next []byte, err error) {
	if v.size == 0 {
		return nil, nil, nil
	}
	id := identify([]byte(source))
	keys := v.keys
	prefix := append(keys.key(nil, supersessions), id[:]...)
	from, below := appendVersion(bytes.Clone(prefix), v.size-1), v.size
	if page.After != nil {
		if len(page.After) != tailBytes+seqBytes || versionOf(page.After[:seqBytes]) >= v.size {
			return nil, nil, ErrPosition
		}
		from = append(bytes.Clone(prefix), page.After[:tailBytes]...)
		below, _ = decodeSeq(page.After[tailBytes:])
	}
	b := v.budget(page)
	for kv, err := range v.scan(from, append(bytes.Clone(prefix), bytes.Repeat([]byte{0xff}, tailBytes+1)...)) {
		if err != nil {
			return nil, nil, err
		}
		one, err := decodeSupersession(kv.value)
		if err != nil {
			return nil, nil, err
		}
		tail := kv.key[len(prefix):]
		rows, below, err = v.appendStale(ctx, rows, source, versionOf(tail[:seqBytes]), &one, min(below, one.to), &b)
		if err != nil {
			return nil, nil, err
		}
		if below > 0 {
			return rows, appendSeq(bytes.Clone(tail), below), nil
		}
		below = v.size
	}
	return rows, nil, nil
}

// appendStale appends the citations below an event that one supersession made stale,
// as many as the budget allows; those below next are left, none if that is 0.
func (v *View) appendStale(ctx context.Context, rows []StaleCitation, source string, by uint64, one *supersession, below uint64, b *budget) (_ []StaleCitation, next uint64, err error) {
	id := identify([]byte(sourceChunkName), []byte(source), one.chunk)
	for r, err := range v.descend(postings, id[:], below) {
		if err != nil {
			return nil, 0, err
		}
		if r.seq < one.from {
			break
		}
		if b.spent(len(rows)) {
			return rows, r.seq + 1, nil
		}
		e, err := v.citing(ctx, r.seq)
		if err != nil {
			return nil, 0, err
		}
		rows = append(rows, StaleCitation{
			Seq: r.seq, RunID: optional(e.RunID()), Subject: string(e.CitationSet().Subject), ChunkHash: string(one.chunk),
			SupersededBy: by, How: supersededHow[one.how],
		})
	}
	return rows, 0, nil
}
