package audit

import (
	"errors"
	"fmt"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// listsLimit bounds how many lists the walk remembers, each of 64 KiB at most.
const listsLimit = 64

// redactionOf is the list of a content_redacted event; nil of any other.
func redactionOf(e pyjson.Value) (*record.SeqList, error) {
	if string(e.Member("kind").Text()) != string(record.ContentRedacted) {
		return nil, nil
	}
	return record.ParseSeqs(e.Member("record").Member("seqs"))
}

// checkList checks what a content_redacted event says itself: which records before
// it are redacted.
func (w *walk) checkList(seq uint64, e pyjson.Value) (*record.SeqList, error) {
	list, err := redactionOf(e)
	if err != nil {
		return nil, damaged(KindEntry, seq, "its list of redacted records: %v", err)
	}
	if list != nil && list.Last() >= seq {
		return nil, damaged(KindEntry, seq, "it redacts record %d, which is not before it", list.Last())
	}
	return list, nil
}

// checkRedacted checks that storage knows of every record that an event redacts.
// That the redaction which storage names does so too, and does not come too early,
// is checked with the record.
func (w *walk) checkRedacted(seq uint64, list *record.SeqList) error {
	if list == nil {
		return nil
	}
	for s := range list.All() {
		switch by, redacted, err := w.redactedBy(s); {
		case err != nil:
			return err
		case !redacted:
			return damaged(KindRedaction, seq, "it redacts record %d, which is not redacted", s)
		case by > seq:
			return damaged(KindRedaction, seq, "it redacts record %d, which is redacted by the later event %d", s, by)
		}
	}
	return nil
}

// redactedBy is the event that has redacted a record as storage has it, false if
// there is none.
func (w *walk) redactedBy(seq uint64) (by uint64, redacted bool, err error) {
	by, err = w.source.Redaction(w.ctx, seq)
	switch {
	case errors.Is(err, ErrAbsent):
		return 0, false, nil
	case err != nil:
		return 0, false, unread(err, damaged(KindRedaction, seq, "whether it is redacted cannot be read: %v", err))
	}
	return by, true, nil
}

// checkRedactor checks that the event which has redacted a record, as storage has
// it, comes later and says so.
func (w *walk) checkRedactor(seq, by uint64) error {
	if by <= seq {
		return damaged(KindRedaction, seq, "it is redacted by event %d, which does not come after it", by)
	}
	if by >= w.head.Size {
		now, err := w.source.Head(w.ctx)
		if err != nil {
			return fmt.Errorf("read the head again: %w", err)
		}
		if by >= now.Size { // else the log has grown since
			return damaged(KindRedaction, seq, "it is redacted by event %d, the head has %d", by, now.Size)
		}
		return nil
	}
	list, known, err := w.listOf(by)
	if err == nil && known && (list == nil || !list.Has(seq)) {
		err = damaged(KindRedaction, seq, "it is redacted by event %d, which does not say so", by)
	}
	return err
}

// checkRedactions checks that storage says nothing of redactions beyond the head.
// Nothing reads that yet, but an event to come would be taken for one that redacts,
// or its record for redacted. What is below the head is checked with its record.
func (w *walk) checkRedactions() error {
	for r, err := range w.source.Redactions(w.ctx) {
		if err != nil {
			return unread(err, damaged(KindRedaction, w.head.Size, "what is redacted cannot be listed: %v", err))
		}
		if r.Seq < w.head.Size && r.By < w.head.Size {
			continue
		}
		if err := w.checkRedactor(r.Seq, r.By); err != nil {
			return err
		}
	}
	return nil
}

// listOf is the list of a later event, nil where that redacts nothing. It is not
// known where that event is damaged: the walk will come to it.
func (w *walk) listOf(seq uint64) (list *record.SeqList, known bool, err error) {
	if list, known = w.lists[seq]; known {
		return list, true, nil
	}
	e, known, err := w.eventAt(seq)
	if !known || err != nil {
		return nil, false, err
	}
	if list, err = redactionOf(e); err != nil {
		return nil, false, nil
	}
	if len(w.lists) == listsLimit {
		clear(w.lists)
	}
	w.lists[seq] = list
	return list, true, nil
}

// eventAt reads an event out of turn. It is not known where the event is damaged. It
// is valid until the next call.
func (w *walk) eventAt(seq uint64) (e pyjson.Value, known bool, err error) {
	entry, err := w.entryAt(seq)
	if err != nil {
		return pyjson.Value{}, false, unread(err, nil)
	}
	stored, err := w.source.Tile(w.ctx, 0, seq/proofs.FullTile)
	if err != nil {
		return pyjson.Value{}, false, unread(err, nil)
	}
	leaf, at := proofs.LeafHash(entry), seq%proofs.FullTile*proofs.HashSize
	if at+proofs.HashSize > uint64(len(stored)) || proofs.Hash(stored[at:at+proofs.HashSize]) != leaf {
		return pyjson.Value{}, false, nil
	}
	_, body, err := proofs.SplitEntry(entry)
	if err != nil || w.ahead.Parse(body) != nil {
		return pyjson.Value{}, false, nil
	}
	return w.ahead.Root(), true, nil
}

func (w *walk) entryAt(seq uint64) ([]byte, error) {
	for entry, err := range w.source.Entries(w.ctx, seq) {
		return append([]byte(nil), entry...), err
	}
	return nil, fmt.Errorf("entry %d: %w", seq, ErrAbsent)
}

// notCounted says that a piece of content is not kept for a record that needs it: once
// the others that do are redacted, it would be erased.
func (w *walk) notCounted(seq uint64, digest proofs.Hash) (string, error) {
	kept, err := w.source.Referenced(w.ctx, digest, seq)
	switch {
	case err != nil:
		return "whether it is kept for this record cannot be read: " + err.Error(), unread(err, nil)
	case !kept:
		return "it is there, but not kept for this record", nil
	}
	return "", nil
}

// notErased says why a piece of content that a redacted record names should not be
// there, if it should not.
func (w *walk) notErased(seq uint64, digest proofs.Hash) (string, error) {
	if w.needed[digest] {
		return "", nil
	}
	_, err := w.source.Content(w.ctx, digest)
	if errors.Is(err, ErrAbsent) {
		return "", nil
	}
	if err != nil {
		return "whether it is erased cannot be read: " + err.Error(), unread(err, nil)
	}
	first, err := w.source.Need(w.ctx, digest)
	if errors.Is(err, ErrAbsent) {
		return "not erased: no record needs it, but its bytes are there", nil
	}
	if err != nil {
		return "which records need it cannot be read: " + err.Error(), unread(err, nil)
	}
	why, err := w.notNeeded(first, digest)
	if why != "" || err != nil {
		return why, err
	}
	if len(w.needed) == heldLimit {
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
	for _, named := range e.Member("record").Member("content").Members() {
		if d, err := proofs.ParseHash(string(named.Member("sha256").Text())); err == nil && d == digest {
			return "", nil
		}
	}
	return fmt.Sprintf("not erased: it is kept for record %d, which does not name it", seq), nil
}
