package citations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"colophon/ledger/drift"
	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
	"colophon/storage"
)

// Set lists the source chunks on which an answer rests (spec: Citation set). Citations contains all
// citations of the set, or only those that a query selects.
type Set struct {
	Seq       uint64
	Time      time.Time  // time of the set's event
	RunID     *string    // nil if the record has none
	Subject   string     // what the citations are about
	Citations []Citation // in the order of the record
}

// Citation is one citation of a set (spec: Citation set).
type Citation struct {
	ChunkHash, SourceID string
	Section             *string // nil if the section is null
	Weight              string  // a JSON number
}

// Get returns the citation set at seq. It returns storage.ErrNotFound if the event is of another
// kind or is not below the view's size.
func Get(ctx context.Context, v *index.View, seq uint64) (Set, error) {
	e, err := readSet(ctx, v, seq)
	if err != nil {
		return Set{}, err
	}
	return *citationSetOf(&e, func(*event.Citation) bool { return true }), nil
}

// readSet reads the event of the citation set at seq. The event is valid until the view reads
// another one.
func readSet(ctx context.Context, v *index.View, seq uint64) (event.Event, error) {
	if seq >= v.Size() {
		return event.Event{}, fmt.Errorf("reading event %d: %w", seq, storage.ErrNotFound)
	}
	e, err := v.Event(ctx, seq)
	if err == nil && e.Kind != record.KindCitationSet {
		err = fmt.Errorf("reading event %d as a citation set: %w", seq, storage.ErrNotFound)
	}
	e.Seq = seq
	return e, err
}

// citationSetOf returns the citation set in e with only the citations for which wanted returns
// true.
func citationSetOf(e *event.Event, wanted func(*event.Citation) bool) *Set {
	decoded := e.CitationSet()
	set := &Set{Seq: e.Seq, Time: e.Time, RunID: index.StringPointer(e.RunID()), Subject: string(decoded.Subject)}
	for i := range decoded.Citations {
		if c := &decoded.Citations[i]; wanted(c) {
			set.Citations = append(set.Citations, Citation{
				ChunkHash: string(c.ChunkHash), SourceID: string(c.SourceID),
				Section: index.StringPointer(c.Section), Weight: string(c.Weight),
			})
		}
	}
	return set
}

// SetsCitingChunk returns the sets that cite a chunk, newest first, each with only the citations of
// that chunk.
func SetsCitingChunk(ctx context.Context, v *index.View, hash string, page index.PageRequest) ([]Set, []byte, error) {
	return setsWith(ctx, v, chunkName, hash, page, func(c *event.Citation) bool { return string(c.ChunkHash) == hash })
}

// SetsCitingSource returns the sets that cite a source, newest first, each with only the citations of
// that source.
func SetsCitingSource(ctx context.Context, v *index.View, id string, page index.PageRequest) ([]Set, []byte, error) {
	return setsWith(ctx, v, sourceName, id, page, func(c *event.Citation) bool { return string(c.SourceID) == id })
}

func setsWith(ctx context.Context, v *index.View, name, value string, page index.PageRequest, wanted func(*event.Citation) bool) ([]Set, []byte, error) {
	id := rowstore.IdentityOf([]byte(name), []byte(value))
	return rowstore.PageNewestFirst(v.Reader, records.PostingsDimension, id[:], page, func(r rowstore.Version) (*Set, error) {
		e, err := readSet(ctx, v, r.Seq)
		if err != nil {
			return nil, err
		}
		return citationSetOf(&e, wanted), nil
	})
}

// Drift describes how the chunks of a set differ from those of the previous set with the same
// subject.
type Drift struct {
	Seq         uint64    // seq of the set
	Time        time.Time // time of the set's event
	RunID       *string   // nil if the record has none
	PreviousSeq uint64    // seq of the previous set; 0 for the first set
	drift.ChunkChange
}

// ListDrift returns the sets with the given subject, oldest first, each compared with the one
// before it.
func ListDrift(ctx context.Context, v *index.View, subject string, page index.PageRequest) ([]Drift, []byte, error) {
	var before Set
	last, given, err := page.Position()
	if err == nil && given {
		if before, err = Get(ctx, v, last); errors.Is(err, storage.ErrNotFound) {
			err = index.ErrInvalidPosition
		}
	}
	if err != nil {
		return nil, nil, err
	}
	id := rowstore.IdentityOf([]byte(records.NameSubject), []byte(subject))
	return rowstore.PageOldestFirst(v.Reader, records.PostingsDimension, id[:], page, func(r rowstore.Version) (*Drift, error) {
		set, err := Get(ctx, v, r.Seq)
		if err != nil {
			return nil, err
		}
		d := &Drift{Seq: r.Seq, Time: set.Time, RunID: set.RunID, PreviousSeq: before.Seq,
			ChunkChange: drift.CompareChunks(chunksOf(&before), chunksOf(&set))}
		before = set
		return d, nil
	})
}

func chunksOf(s *Set) []string {
	hashes := make([]string, len(s.Citations))
	for i, c := range s.Citations {
		hashes[i] = c.ChunkHash
	}
	return hashes
}
