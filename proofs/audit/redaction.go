package audit

import (
	"errors"

	"colophon/ledger/record"
	"colophon/ledger/record/seqs"
)

// maxLists is the number of lists that a redactionCheck keeps, each of 64 KiB at most.
const maxLists = 64

// redactionCheck compares the stored redactions with those in the events.
type redactionCheck struct {
	*target
	stored Source
	reread *rereader
	lists  map[uint64]*seqs.List // of events; nil for one that redacts nothing
}

// list checks that every record that an event redacts is redacted in storage, and not by a later
// event. The check of the record compares what storage has for it.
func (c *redactionCheck) list(seq uint64, list *seqs.List) error {
	for s := range list.All() {
		switch by, redacted, err := c.by(s); {
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

// by returns the event that redacted a record according to storage, if there is one.
func (c *redactionCheck) by(seq uint64) (by uint64, redacted bool, err error) {
	by, err = c.stored.Redaction(c.ctx, seq)
	switch {
	case errors.Is(err, ErrAbsent):
		return 0, false, nil
	case err != nil:
		return 0, false, readDamage(err, damaged(KindRedaction, seq, "whether it is redacted cannot be read: %v", err))
	}
	return by, true, nil
}

// pair checks that the event which redacted a record according to storage comes later and says so.
func (c *redactionCheck) pair(seq, by uint64) error {
	if by <= seq {
		return damaged(KindRedaction, seq, "it is redacted by event %d, which does not come after it", by)
	}
	if by >= c.head.Size {
		now, err := c.sizeNow()
		if err == nil && by >= now { // otherwise the log has grown since
			err = damaged(KindRedaction, seq, "it is redacted by event %d, but the head has %d", by, now)
		}
		return err
	}
	list, known, err := c.listOf(by)
	if err == nil && known && (list == nil || !list.Has(seq)) {
		err = damaged(KindRedaction, seq, "it is redacted by event %d, which does not say so", by)
	}
	return err
}

// finish checks that storage has no redactions beyond the head. Later events would become redacted
// or redacting by them. The check of each record compares those below the head.
func (c *redactionCheck) finish() error {
	for r, err := range c.stored.Redactions(c.ctx) {
		if err != nil {
			return readDamage(err, damaged(KindRedaction, c.head.Size, "the redactions cannot be listed: %v", err))
		}
		if r.Seq < c.head.Size && r.By < c.head.Size {
			continue
		}
		if err := c.pair(r.Seq, r.By); err != nil {
			return err
		}
	}
	return nil
}

// listOf returns the list of a later event, or nil if that redacts nothing. It is not known if that
// event is damaged: the walk comes to it.
func (c *redactionCheck) listOf(seq uint64) (list *seqs.List, known bool, err error) {
	if list, known = c.lists[seq]; known {
		return list, true, nil
	}
	e, known, err := c.reread.stored(seq)
	if !known || err != nil {
		return nil, false, err
	}
	if e.Kind == record.ContentRedacted {
		if list = e.Redaction().Seqs; list == nil {
			return nil, false, nil
		}
	}
	if len(c.lists) == maxLists {
		clear(c.lists)
	}
	c.lists[seq] = list
	return list, true, nil
}
