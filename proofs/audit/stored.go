package audit

import (
	"bytes"
	"container/list"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"colophon/ledger/event"
	"colophon/proofs"
)

// checkStored checks what is stored beside the log for an event: every piece of content that
// it names (spec: Content), that none is there which was to be erased, and that what it redacts
// is redacted.
func (w *walk) checkStored(e *decoded, body []byte) error {
	by, redacted, err := w.redactedBy(e.seq)
	if err == nil && redacted {
		err = w.checkRedactor(e.seq, by)
	}
	if err != nil {
		return err
	}
	w.digests = w.digests[:0]
	for _, named := range e.Common.Contents {
		digest, err := proofs.ParseHash(string(named.Digest))
		if err != nil {
			return e.damaged("its content %.100q: %v", named.Name, err)
		}
		good, wrong := &w.report.Contents, ""
		if redacted {
			good = &w.report.Redacted
			wrong, err = w.notErased(digest)
		} else {
			wrong, err = w.wrongContent(e.seq, digest, named.Size)
		}
		if err != nil {
			return err
		}
		if wrong != "" {
			return &Damage{Kind: KindContent, Seq: e.seq, Name: named.Name, Message: wrong}
		}
		*good++
		w.digests = append(w.digests, digest)
	}
	if !redacted {
		w.report.Needs += distinct(w.digests)
	}
	if err := w.checkRedacted(e.seq, e.list); err != nil {
		return err
	}
	if !w.options.Strict || redacted {
		return nil
	}
	return w.derive(e.seq, body)
}

// distinct is the number of different hashes in a list, which it sorts.
func distinct(list []proofs.Hash) uint64 {
	slices.SortFunc(list, func(a, b proofs.Hash) int { return bytes.Compare(a[:], b[:]) })
	return uint64(len(slices.Compact(list)))
}

// derive recomputes the record at seq from its content, which is valid.
func (w *walk) derive(seq uint64, body []byte) error {
	return w.deriver.Check(seq, body, func(_ string, digest proofs.Hash) ([]byte, error) {
		return w.read(digest)
	})
}

// wrongContent says what is wrong with a piece of content that a record needs, if
// anything is.
func (w *walk) wrongContent(seq uint64, digest proofs.Hash, size uint64) (string, error) {
	held, good := w.pieces.size(digest)
	if !good {
		content, err := w.read(digest)
		if err != nil {
			return "missing: " + err.Error(), unavailable(err)
		}
		if held = uint64(len(content)); sha256.Sum256(content) != digest {
			return "altered: its bytes do not have the digest that the event names", nil
		}
		w.pieces.note(digest, held)
	}
	if wrong, err := w.notCounted(seq, digest); wrong != "" || err != nil {
		return wrong, err
	}
	if held != size {
		return fmt.Sprintf("it has %d bytes, the event says %d", held, size), nil
	}
	return "", nil
}

// read reads a piece of content, unless it was read lately.
func (w *walk) read(digest proofs.Hash) ([]byte, error) {
	if content, kept := w.pieces.get(digest); kept {
		return content, nil
	}
	content, err := w.stored.Content(w.ctx, digest)
	if err == nil {
		w.pieces.put(digest, content)
	}
	return content, err
}

// Bounds of what a walk remembers of content.
const (
	piecesGood  = 1 << 16  // digests
	piecesBytes = 32 << 20 // of content, and a single piece more
)

// pieces are pieces of content that were read lately, and the sizes of some more that
// were seen to be good.
type pieces struct {
	sizes map[proofs.Hash]uint64
	bytes int
	kept  map[proofs.Hash]*list.Element // of order
	order list.List                     // of piece, the one that was used last in front
}

type piece struct {
	digest proofs.Hash
	bytes  []byte
}

func newPieces() pieces {
	return pieces{sizes: make(map[proofs.Hash]uint64), kept: make(map[proofs.Hash]*list.Element)}
}

func (p *pieces) size(digest proofs.Hash) (size uint64, good bool) {
	size, good = p.sizes[digest]
	return size, good
}

func (p *pieces) note(digest proofs.Hash, size uint64) {
	if len(p.sizes) == piecesGood {
		clear(p.sizes)
	}
	p.sizes[digest] = size
}

func (p *pieces) get(digest proofs.Hash) ([]byte, bool) {
	at, kept := p.kept[digest]
	if !kept {
		return nil, false
	}
	p.order.MoveToFront(at)
	return at.Value.(piece).bytes, true
}

func (p *pieces) put(digest proofs.Hash, content []byte) {
	p.kept[digest] = p.order.PushFront(piece{digest, content})
	for p.bytes += len(content); p.bytes > piecesBytes && p.order.Len() > 1; {
		oldest := p.order.Remove(p.order.Back()).(piece)
		delete(p.kept, oldest.digest)
		p.bytes -= len(oldest.bytes)
	}
}

// notCounted says that a piece of content is not kept for a record that needs it: once
// the others that do are redacted, it would be erased.
func (w *walk) notCounted(seq uint64, digest proofs.Hash) (string, error) {
	kept, err := w.stored.Referenced(w.ctx, digest, seq)
	switch {
	case err != nil:
		return "whether it is kept for this record cannot be read: " + err.Error(), unavailable(err)
	case !kept:
		return "it is there, but not kept for this record", nil
	}
	return "", nil
}

// notErased says why a piece of content that a redacted record names should not be
// there, if it should not.
func (w *walk) notErased(digest proofs.Hash) (string, error) {
	if w.needed[digest] {
		return "", nil
	}
	_, err := w.stored.Content(w.ctx, digest)
	if errors.Is(err, ErrAbsent) {
		return "", nil
	}
	if err != nil {
		return "whether it is erased cannot be read: " + err.Error(), unavailable(err)
	}
	first, err := w.stored.Need(w.ctx, digest)
	if errors.Is(err, ErrAbsent) {
		return "not erased: no record needs it, but its bytes are there", nil
	}
	if err != nil {
		return "which records need it cannot be read: " + err.Error(), unavailable(err)
	}
	why, err := w.notNeeded(first, digest)
	if why != "" || err != nil {
		return why, err
	}
	if len(w.needed) == piecesGood {
		clear(w.needed)
	}
	w.needed[digest] = true
	return "", nil
}

// notNeeded says why a piece of content is kept for the wrong record, if it is.
func (w *walk) notNeeded(seq uint64, digest proofs.Hash) (string, error) {
	by, redacted, err := w.redactedBy(seq)
	if err != nil {
		return "", err
	}
	if redacted {
		return fmt.Sprintf("not erased: it is kept for record %d, which event %d has redacted", seq, by), nil
	}
	e, known, err := w.eventAt(seq)
	if err != nil || !known && seq < w.head.Size {
		return "", err
	}
	if known && names(e, digest) {
		return "", nil
	}
	return fmt.Sprintf("not erased: it is kept for record %d, which does not name it", seq), nil
}

// names reports whether an event names a piece of content.
func names(e event.Event, digest proofs.Hash) bool {
	for named := range e.Contents() {
		if named.Digest == digest {
			return true
		}
	}
	return false
}
