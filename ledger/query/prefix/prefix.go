// Package prefix finds hashes of a ledger's records by their first digits.
package prefix

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/records"
	"colophon/ledger/record"
)

// Names of the hashes that are not in the "hashes" member of an event.
const (
	ChunkHashName    = "chunk_hash"    // hash of a cited chunk
	DocumentRootName = "document_root" // root of a run-DAG's source document
	StageNamePrefix  = "stage:"        // precedes the name of a stage
)

// Bounds limits how many events a search reads (MaxEvents), and their total size in bytes (MaxBytes).
type Bounds struct{ MaxEvents, MaxBytes int }

// DefaultBounds holds the bounds that the function Find uses.
var DefaultBounds = Bounds{50_000, 128 << 20}

// ErrTooManyHashes means that a search would exceed its bounds.
var ErrTooManyHashes = errors.New("the ledger has too many hashes to search")

// Find returns, in sorted order, the distinct hashes with the given name that begin with the given
// digits. If any run has a matching hash, Find returns only the hashes of runs. If only one kind of
// record can have the hash, Find reads the records of that kind. Otherwise, it reads the whole log
// if the log is small, or one run for each distinct hash with that name. It returns ErrTooManyHashes if
// the search exceeds the bounds, or if no run in a large log has a matching hash.
func Find(ctx context.Context, v *index.View, name, digits string) ([]string, error) {
	return DefaultBounds.Find(ctx, v, name, digits)
}

// Find is like the function Find, but uses the bounds b.
func (b Bounds) Find(ctx context.Context, v *index.View, name, digits string) ([]string, error) {
	s := search{view: v, name: name, digits: digits, text: []byte(`"` + digits), left: b, runs: make(map[string]bool), all: make(map[string]bool)}
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	if len(s.runs) > 0 {
		return slices.Sorted(maps.Keys(s.runs)), nil
	}
	return slices.Sorted(maps.Keys(s.all)), nil
}

// search holds the state of one call to Find.
type search struct {
	view         *index.View
	name, digits string
	text         []byte // a quotation mark and the digits, as they appear in the text of an event
	left         Bounds
	decoder      event.Decoder
	runs, all    map[string]bool // matches in runs, and in all records
}

func (s *search) run(ctx context.Context) error {
	if kind := kindWith(s.name); kind != "" {
		return s.events(ctx, records.SeqsOfKind(s.view, kind))
	}
	if s.view.Size() <= uint64(s.left.MaxEvents) {
		return s.log(ctx)
	}
	if groups.IsValidGrouping(s.name) {
		if err := s.events(ctx, groups.FirstRunSeqs(s.view, s.name)); err != nil || len(s.runs) > 0 {
			return err
		}
	}
	return ErrTooManyHashes
}

// log searches the log up to the view's size.
func (s *search) log(ctx context.Context) error {
	for entry, err := range s.view.Entries(ctx, 0) {
		if err != nil {
			return err
		}
		if entry.Seq >= s.view.Size() {
			break
		}
		if err := s.event(ctx, entry.Seq, entry.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// events searches the events with the given seqs. If there are too many seqs, it returns ErrTooManyHashes
// before it reads any event.
func (s *search) events(ctx context.Context, list iter.Seq2[uint64, error]) error {
	var seqs []uint64
	for seq, err := range list {
		if err != nil {
			return err
		}
		if len(seqs) == s.left.MaxEvents {
			return ErrTooManyHashes
		}
		seqs = append(seqs, seq)
	}
	for _, seq := range seqs {
		entry, err := s.view.ReadEntry(ctx, seq)
		if err == nil {
			err = s.event(ctx, seq, entry)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// event searches one event. It decodes the event only if its text contains the digits, which is
// rare.
func (s *search) event(ctx context.Context, seq uint64, entry []byte) error {
	if s.left.MaxBytes -= len(entry); s.left.MaxBytes < 0 {
		return ErrTooManyHashes
	}
	if !bytes.Contains(entry, s.text) {
		return nil
	}
	e, err := s.decoder.Decode(entry)
	if err != nil {
		return fmt.Errorf("parsing event %d: %w", seq, err)
	}
	if e.Kind == record.KindIPCRecord && groups.IsValidGrouping(s.name) {
		value, err := groups.ValueOf(ctx, s.view, seq, s.name)
		if err != nil {
			return err
		}
		s.add(s.runs, value)
	}
	for _, hash := range hashesIn(&e, s.name) {
		s.add(s.all, string(hash))
	}
	return nil
}

// add adds hash to a set if it begins with the digits.
func (s *search) add(to map[string]bool, hash string) {
	if strings.HasPrefix(hash, s.digits) {
		to[hash] = true
	}
}

// kindWith returns the only kind of records that can have a hash with the given name, or "" if
// several kinds can.
func kindWith(name string) record.Kind {
	switch {
	case name == ChunkHashName:
		return record.KindCitationSet
	case name == DocumentRootName, strings.HasPrefix(name, StageNamePrefix):
		return record.KindRunDAG
	}
	return ""
}

// hashesIn returns the hashes with the given name in a record. It returns nil if e is not a record.
func hashesIn(e *event.Event, name string) (hashes [][]byte) {
	kind := kindWith(name)
	switch {
	case !e.Kind.IsRecord() || kind != "" && e.Kind != kind:
	case kind == "":
		for known, hash := range e.EffectiveHashes() {
			if string(known) == name {
				hashes = append(hashes, hash)
			}
		}
	case name == ChunkHashName:
		set := e.CitationSet()
		for i := range set.Citations {
			hashes = append(hashes, set.Citations[i].ChunkHash)
		}
	case name == DocumentRootName:
		hashes = e.DAG().DocumentRoots
	default:
		for _, stage := range e.DAG().Stages {
			if StageNamePrefix+string(stage.Name) == name {
				hashes = append(hashes, stage.Hash)
			}
		}
	}
	return hashes
}
