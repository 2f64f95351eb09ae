package audit

import (
	"errors"
	"fmt"

	"colophon/ledger/record"
)

// listsLimit bounds how many lists the walk remembers, each of 64 KiB at most.
const listsLimit = 64

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
	by, err = w.stored.Redaction(w.ctx, seq)
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
	for r, err := range w.stored.Redactions(w.ctx) {
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
	if e.Kind == record.ContentRedacted {
		if list = e.Redaction().Seqs; list == nil {
			return nil, false, nil
		}
	}
	if len(w.lists) == listsLimit {
		clear(w.lists)
	}
	w.lists[seq] = list
	return list, true, nil
}
