package citations

import (
	"context"
	"fmt"
	"time"

	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
	"colophon/storage"
)

// Source describes a source of chunks that is or was registered (spec: Unregistered sources).
type Source struct {
	ID         string
	Seq        uint64 // seq of the last registration or revocation
	Registered bool   // whether the source is registered at present; false if its latest event revoked it
	// HasChunkList is true if the registration lists the source's chunks, even if the list is empty.
	HasChunkList bool
	ChunkCount   uint64 // number of listed chunks
}

// SourceDetail is a source with the details of its last registration or revocation.
type SourceDetail struct {
	Source
	Time        time.Time // time of the last registration or revocation
	Title       *string   // title of the source; nil if not given
	Reason      *string   // reason for the registration or revocation; nil if not given
	ChunkHashes []string  // hashes of the listed chunks, in the order of the registration
}

// SourceByID returns the source with the given ID, or false if it was never registered.
func SourceByID(v *index.View, id string) (Source, bool, error) {
	row := rowstore.IdentityOf([]byte(id))
	return sourceBelow(v, id, row, v.Size())
}

// sourceBelow returns a source as of the given size. It returns false if the source had not been
// registered by then.
func sourceBelow(v *index.View, id string, row rowstore.Identity, below uint64) (Source, bool, error) {
	seq, value, found, err := v.NewestVersionBelow(sourceStates, row[:], below)
	if err != nil || !found {
		return Source{ID: id}, false, err
	}
	s, err := decodeSourceState(value)
	return Source{ID: id, Seq: seq, Registered: s.registered > 0, HasChunkList: s.listed > 0, ChunkCount: s.chunks}, true, err
}

// SourceDetailByID returns the source with the given ID, or storage.ErrNotFound if it was never
// registered.
func SourceDetailByID(ctx context.Context, v *index.View, id string) (SourceDetail, error) {
	s, found, err := SourceByID(v, id)
	if err == nil && !found {
		err = fmt.Errorf("looking up source %q: %w", id, storage.ErrNotFound)
	}
	if err != nil {
		return SourceDetail{}, err
	}
	detail, decoded, err := readSource(ctx, v, s)
	for _, hash := range decoded.ChunkHashes {
		detail.ChunkHashes = append(detail.ChunkHashes, string(hash))
	}
	return detail, err
}

// readSource reads the event that last registered or revoked s. It returns the source's details
// without ChunkHashes, and the decoded fields of the event.
func readSource(ctx context.Context, v *index.View, s Source) (SourceDetail, event.Source, error) {
	e, err := v.Event(ctx, s.Seq)
	if err != nil {
		return SourceDetail{}, event.Source{}, err
	}
	decoded := e.Source()
	return SourceDetail{Source: s, Time: e.Time, Title: index.StringPointer(decoded.Title), Reason: index.StringPointer(decoded.Reason)}, decoded, nil
}

// ListSources returns the sources that are or were registered, without their chunks, sorted by
// first registration, newest first.
func ListSources(ctx context.Context, v *index.View, page index.PageRequest) ([]SourceDetail, []byte, error) {
	return rowstore.PageNewestFirst(v.Reader, sourceList, listRow, page, func(r rowstore.Version) (*SourceDetail, error) {
		s, _, err := SourceByID(v, string(r.Value))
		if err != nil {
			return nil, err
		}
		detail, _, err := readSource(ctx, v, s)
		return &detail, err
	})
}

// UnregisteredSources returns the sources cited by the citation set at seq that were not registered
// at that time, in the order of the set. It returns an empty list if no source had been registered
// by then. It returns storage.ErrNotFound if the event is of another kind.
func UnregisteredSources(ctx context.Context, v *index.View, seq uint64) ([]string, error) {
	e, err := readSet(ctx, v, seq)
	if err != nil {
		return nil, err
	}
	_, _, any, err := v.NewestVersionBelow(sourceList, listRow, seq)
	if err != nil || !any {
		return nil, err
	}
	var unregistered []string
	seen := make(map[string]bool)
	for _, c := range e.CitationSet().Citations {
		id := string(c.SourceID)
		if seen[id] {
			continue
		}
		seen[id] = true
		s, _, err := sourceBelow(v, id, rowstore.IdentityOf(c.SourceID), seq)
		if err != nil {
			return nil, err
		}
		if !s.Registered {
			unregistered = append(unregistered, id)
		}
	}
	return unregistered, nil
}
