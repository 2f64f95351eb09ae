package storeaudit

import (
	"context"
	"iter"
	"maps"
	"slices"

	"colophon/ledger/event"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/storage"
)

// Limits on a page: on its number of events, on the bytes of their entries, and on the pieces of content
// that they name. A page can exceed the last two by one event.
const (
	pageEvents   = 512
	pageBytes    = 1 << 20
	pageContents = 2048
)

// pagedSource is a source that reads ahead what is stored for the next events, in pages. It reads alone what
// is not in the page. If a page cannot be read, it reads every item of the page alone, so that an error
// concerns only the item that was asked for. Its methods are not safe for concurrent use.
type pagedSource struct {
	source
	pages   storage.PageReader
	decoder event.Decoder

	iterating bool
	entries   []byte               // the entries of the page, one after the other
	ends      []int                // where each entry ends in entries
	first     uint64               // seq of the page's first event
	digests   map[proofs.Hash]bool // content that the events of the page name
	keys      map[proofs.Hash]bool // their idempotency keys
	page      *storage.Page        // nil if it could not be read
}

var (
	_ audit.Source    = (*pagedSource)(nil)
	_ audit.Refresher = (*pagedSource)(nil)
)

// Entries implements audit.Source. An iteration that begins during another one reads no pages, because the
// other one still needs its page.
func (s *pagedSource) Entries(ctx context.Context, from uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if s.iterating {
			s.source.Entries(ctx, from)(yield)
			return
		}
		s.iterating = true
		defer func() { s.iterating, s.page = false, nil }()
		s.begin(from)
		for entry, err := range s.source.Entries(ctx, from) {
			if err != nil {
				if s.yieldPage(ctx, yield) {
					yield(nil, err)
				}
				return
			}
			s.add(entry)
			if s.isFull() && !s.yieldPage(ctx, yield) {
				return
			}
		}
		s.yieldPage(ctx, yield)
	}
}

// begin begins an empty page at the given seq.
func (s *pagedSource) begin(seq uint64) {
	s.first = seq
	s.ends, s.entries, s.page = s.ends[:0], s.entries[:0], nil
	s.digests, s.keys = make(map[proofs.Hash]bool), make(map[proofs.Hash]bool)
}

// end returns the seq of the first event after the page.
func (s *pagedSource) end() uint64 { return s.first + uint64(len(s.ends)) }

func (s *pagedSource) isFull() bool {
	return len(s.ends) == pageEvents || len(s.entries) >= pageBytes || len(s.digests) >= pageContents
}

// add adds an entry to the page. If it cannot be decoded, the walk reports that, so add ignores it.
func (s *pagedSource) add(entry []byte) {
	s.entries = append(s.entries, entry...)
	s.ends = append(s.ends, len(s.entries))
	e, err := s.decoder.Decode(entry)
	if err != nil {
		return
	}
	for c := range e.Contents() {
		s.digests[c.Digest] = true
	}
	if key := e.IdempotencyKey(); key != nil {
		s.keys[*key] = true
	}
}

// yieldPage reads what is stored for the events of the page, yields their entries, and begins the next page.
func (s *pagedSource) yieldPage(ctx context.Context, yield func([]byte, error) bool) bool {
	if len(s.ends) == 0 {
		return true
	}
	s.page, _ = s.pages.ReadPage(ctx, s.first, s.end(), slices.Collect(maps.Keys(s.digests)), slices.Collect(maps.Keys(s.keys)))
	start := 0
	for _, end := range s.ends {
		if !yield(s.entries[start:end:end], nil) {
			return false
		}
		start = end
	}
	s.begin(s.end())
	return true
}

// Content implements audit.Source.
func (s *pagedSource) Content(ctx context.Context, digest proofs.Hash) ([]byte, error) {
	if s.page == nil || !s.digests[digest] {
		return s.source.Content(ctx, digest)
	}
	content, stored := s.page.Contents[digest]
	switch {
	case !stored:
		return nil, audit.ErrNotFound
	case content == nil:
		return s.source.Content(ctx, digest)
	}
	return content, nil
}

// HasReference implements audit.Source.
func (s *pagedSource) HasReference(ctx context.Context, digest proofs.Hash, seq uint64) (bool, error) {
	if s.page == nil || !s.digests[digest] || seq < s.first || seq >= s.end() {
		return s.source.HasReference(ctx, digest, seq)
	}
	return s.page.References[storage.Reference{Digest: digest, Seq: seq}], nil
}

// RedactingSeq implements audit.Source.
func (s *pagedSource) RedactingSeq(ctx context.Context, seq uint64) (uint64, error) {
	if s.page == nil || seq < s.first || seq >= s.end() {
		return s.source.RedactingSeq(ctx, seq)
	}
	by, redacted := s.page.Redactions[seq]
	if !redacted {
		return 0, audit.ErrNotFound
	}
	return by, nil
}

// KeyClaim implements audit.Source.
func (s *pagedSource) KeyClaim(ctx context.Context, key proofs.Hash) (audit.Claim, error) {
	if s.page == nil {
		return s.source.KeyClaim(ctx, key)
	}
	claim, inPage := s.page.Claims[key]
	if !inPage {
		return s.source.KeyClaim(ctx, key)
	}
	return audit.Claim{Seq: claim.Seq, RecordDigest: claim.RecordDigest}, nil
}

// Refresh implements audit.Refresher.
func (s *pagedSource) Refresh() { s.page = nil }
