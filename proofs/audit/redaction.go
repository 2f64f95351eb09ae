package audit

import (
	"errors"

	"colophon/ledger/record"
	"colophon/ledger/record/seqs"
)

// maxLists is the maximum number of lists that a redactionCheck keeps in memory. Each list uses up
// to 64 KiB.
const maxLists = 64

// redactionCheck compares the stored redactions with the redactions in the events.
type redactionCheck struct {
	*target
	stored Source
	reread *rereader
	lists  map[uint64]*seqs.List // the records that each event redacts, keyed by the event's seq; nil for an event that redacts none
}

// checkList checks that storage has a redaction for every record in list, which the event at seq
// redacts. These redactions must not name an event later than seq. checkPair compares each
// redaction with the event that it names.
func (c *redactionCheck) checkList(seq uint64, list *seqs.List) error {
	for s := range list.All() {
		switch by, redacted, err := c.redactedBy(s); {
		case err != nil:
			return err
		case !redacted:
			return damaged(DamageKindRedaction, seq, "the event redacts record %d, which is not redacted in storage", s)
		case by > seq:
			return damaged(DamageKindRedaction, seq, "the event redacts record %d, but storage attributes the redaction to the later event %d", s, by)
		}
	}
	return nil
}

// redactedBy returns the event that redacted the record at seq, according to storage. redacted is
// false if storage has no redaction of the record.
func (c *redactionCheck) redactedBy(seq uint64) (by uint64, redacted bool, err error) {
	by, err = c.stored.RedactingSeq(c.ctx, seq)
	switch {
	case errors.Is(err, ErrNotFound):
		return 0, false, nil
	case err != nil:
		return 0, false, readDamage(err, damaged(DamageKindRedaction, seq, "checking whether the record is redacted: %v", err))
	}
	return by, true, nil
}

// checkPair checks a stored redaction of the record at seq. According to storage, by is the seq of
// the event that redacted the record. That event must come after the record and list it.
func (c *redactionCheck) checkPair(seq, by uint64) error {
	if by <= seq {
		return damaged(DamageKindRedaction, seq, "storage says that event %d redacts this record, but that event does not come after the record", by)
	}
	if by >= c.head.Size {
		now, err := c.sizeNow()
		if err == nil && by >= now { // if by < now, the log has grown in the meantime
			err = damaged(DamageKindRedaction, seq, "storage says that event %d redacts this record, but the head has only %d events", by, now)
		}
		return err
	}
	list, known, err := c.listOf(by)
	if err == nil && known && (list == nil || !list.Has(seq)) {
		err = damaged(DamageKindRedaction, seq, "storage says that event %d redacts this record, but that event does not list the record", by)
	}
	return err
}

// finish checks the stored redactions in which the record or the redacting event is beyond the
// head. Such a redaction is valid only if the log has grown in the meantime. Redactions below the
// head are compared when each record is checked.
func (c *redactionCheck) finish() error {
	for r, err := range c.stored.Redactions(c.ctx) {
		if err != nil {
			return readDamage(err, damaged(DamageKindRedaction, c.head.Size, "cannot list the redactions: %v", err))
		}
		if r.RecordSeq < c.head.Size && r.RedactingSeq < c.head.Size {
			continue
		}
		if err := c.checkPair(r.RecordSeq, r.RedactingSeq); err != nil {
			return err
		}
	}
	return nil
}

// listOf returns the list of records that the event at seq redacts, or nil if it redacts none. The
// walk may not have reached that event yet. known is false if the event is damaged; the walk
// reports the damage when it reaches the event.
func (c *redactionCheck) listOf(seq uint64) (list *seqs.List, known bool, err error) {
	if list, known = c.lists[seq]; known {
		return list, true, nil
	}
	e, known, err := c.reread.stored(seq)
	if !known || err != nil {
		return nil, false, err
	}
	if e.Kind == record.KindContentRedacted {
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
