package citations

import (
	"bytes"
	"context"
	"fmt"

	"colophon/ledger/index"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
)

// StaleCitation is a citation of a chunk that was superseded later.
type StaleCitation struct {
	Seq              uint64  // seq of the set that contains the citation
	RunID            *string // run_id of the set; nil if it has none
	Subject          string  // what the citations of the set are about
	SourceID         string  // source from which the set cites the chunk
	ChunkHash        string  // hash of the cited chunk
	SupersededBy     uint64  // seq of the event that superseded the chunk
	SupersessionKind string  // recited, registered, or not_listed (spec: Stale citations)
}

// ListStaleCitationsOfSource returns the stale citations of a source. The most recently superseded chunk comes
// first, and for each chunk the newest set comes first. A set appears once for each of its superseded
// chunks.
func ListStaleCitationsOfSource(ctx context.Context, v *index.View, source string, page index.PageRequest) (rows []StaleCitation, next []byte, err error) {
	l := staleList{View: v, ctx: ctx, page: page, source: source}
	id := rowstore.IdentityOf([]byte(source))
	return l.read(append(v.Keyspace.AppendPrefix(nil, supersessions), id[:]...), tailBytes)
}

// ListStaleCitations returns the stale citations of all sources, grouped by source. Each group is sorted
// like the result of ListStaleCitationsOfSource. The order of the sources does not depend on the log.
func ListStaleCitations(ctx context.Context, v *index.View, page index.PageRequest) (rows []StaleCitation, next []byte, err error) {
	l := staleList{View: v, ctx: ctx, page: page}
	return l.read(v.Keyspace.AppendPrefix(nil, supersessions), len(rowstore.Identity{})+tailBytes)
}

// staleList reads one page of stale citations.
type staleList struct {
	*index.View
	ctx    context.Context
	page   index.PageRequest
	source string            // ID of the source whose citations are being read
	id     rowstore.Identity // identity of that source, or zero if it is not yet known
}

// read returns a page of the citations that became stale through supersessions whose keys begin
// with prefix. Each of these keys is suffix bytes longer than prefix.
func (l *staleList) read(prefix []byte, suffix int) (rows []StaleCitation, next []byte, err error) {
	if l.Size() == 0 {
		return nil, nil, nil
	}
	from, below := bytes.Clone(prefix), l.Size()
	if after := l.page.After; after != nil {
		if len(after) != suffix+rowstore.SeqSize || rowstore.DecodeVersion(after[suffix-tailBytes:suffix-4]) >= l.Size() {
			return nil, nil, index.ErrInvalidPosition
		}
		from = append(from, after[:suffix]...)
		below, _ = rowstore.DecodeSeq(after[suffix:])
	} else if suffix == tailBytes {
		from = rowstore.AppendVersion(from, l.Size()-1)
	}
	var b *rowstore.Budget
	for from != nil {
		start := from
		from = nil
		for kv, err := range l.Scan(start, append(bytes.Clone(prefix), bytes.Repeat([]byte{0xff}, suffix+1)...)) {
			if err != nil {
				return nil, nil, err
			}
			head, position := kv.Key[:len(kv.Key)-tailBytes], kv.Key
			by := rowstore.DecodeVersion(kv.Key[:len(head)+rowstore.SeqSize])
			if by >= l.Size() { // skip to the supersessions that the view sees
				from = append(rowstore.AppendVersion(bytes.Clone(head), l.Size()-1), 0, 0, 0, 0)
				position = from
			}
			if b != nil && b.IsSpent(len(rows)) {
				return rows, rowstore.AppendSeq(bytes.Clone(position[len(prefix):]), below), nil
			}
			if from != nil {
				break
			}
			one, err := decodeSupersession(kv.Value)
			if err == nil && suffix > tailBytes {
				err = l.nameSource(rowstore.Identity(head[len(prefix):]), by)
			}
			if err != nil {
				return nil, nil, err
			}
			if b == nil { // start the budget after nameSource, because it can read an event as large as a page
				b = new(l.Budget(l.page))
			}
			rows, below, err = appendStale(l.ctx, l.View, rows, l.source, by, &one, min(below, one.to), b)
			if err != nil {
				return nil, nil, err
			}
			if below > 0 {
				return rows, rowstore.AppendSeq(bytes.Clone(kv.Key[len(prefix):]), below), nil
			}
			below = l.Size()
		}
	}
	return rows, nil, nil
}

// nameSource sets l.source to the ID of the source with the given identity. It finds the ID in the
// event at seq by, which superseded a chunk of that source.
func (l *staleList) nameSource(id rowstore.Identity, by uint64) error {
	if id == l.id {
		return nil
	}
	e, err := l.Event(l.ctx, by)
	if err != nil {
		return err
	}
	if e.Kind == record.KindCitationSet {
		for _, c := range e.CitationSet().Citations {
			if rowstore.IdentityOf(c.SourceID) == id {
				l.source, l.id = string(c.SourceID), id
				return nil
			}
		}
	} else if source := e.Source(); rowstore.IdentityOf(source.ID) == id {
		l.source, l.id = string(source.ID), id
		return nil
	}
	return fmt.Errorf("%w: event %d supersedes a chunk of a source, but does not name that source", rowstore.ErrDamaged, by)
}

// appendStale appends the citations that a supersession made stale, considering only sets whose seq
// is less than below. If the budget is spent before the end, next is not 0, and sets whose seq is
// less than next remain.
func appendStale(ctx context.Context, v *index.View, rows []StaleCitation, source string, by uint64, one *supersession, below uint64, b *rowstore.Budget) (_ []StaleCitation, next uint64, err error) {
	id := rowstore.IdentityOf([]byte(sourceChunkName), []byte(source), one.chunk)
	for r, err := range v.VersionsNewestFirst(records.PostingsDimension, id[:], below) {
		if err != nil {
			return nil, 0, err
		}
		if r.Seq < one.from {
			break
		}
		if b.IsSpent(len(rows)) {
			return rows, r.Seq + 1, nil
		}
		e, err := readSet(ctx, v, r.Seq)
		if err != nil {
			return nil, 0, err
		}
		rows = append(rows, StaleCitation{
			Seq: r.Seq, RunID: index.StringPointer(e.RunID()), Subject: string(e.CitationSet().Subject), SourceID: source, ChunkHash: string(one.chunk),
			SupersededBy: by, SupersessionKind: supersededHow[one.how],
		})
	}
	return rows, 0, nil
}
