package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/storage"
)

// maxWithdrawn bounds the pieces of content that one event withdraws, unless a
// single record has more: its commit has to take away each, and other writers wait
// for it.
const maxWithdrawn = 4 << 10

// withdrawnBytes is what withdrawing one piece of content counts for in a commit,
// roughly what it is in the write-ahead log.
const withdrawnBytes = 128

// Withdrawal is what the record that is event seq needs no more once its content is
// redacted; By is the sequencer's to fill in. There are no digests where the event
// names no content, which all events but records do.
func (l *Ledger) Withdrawal(ctx context.Context, seq uint64) (storage.Redaction, error) {
	contents, err := l.contents(ctx, new(event.Decoder), seq)
	if err != nil {
		return storage.Redaction{}, err
	}
	return withdrawal(seq, contents), nil
}

// contents are the pieces of content that an event names, each digest once.
func (l *Ledger) contents(ctx context.Context, d *event.Decoder, seq uint64) ([]event.Content, error) {
	entry, err := l.store.Entry(ctx, seq)
	if err != nil {
		return nil, fmt.Errorf("entry %d: %w", seq, err)
	}
	e, err := d.Decode(entry)
	if err != nil {
		return nil, fmt.Errorf("event %d: %w", seq, err)
	}
	var contents []event.Content
	for c := range e.Contents() {
		if !slices.ContainsFunc(contents, func(b event.Content) bool { return b.Digest == c.Digest }) {
			contents = append(contents, c)
		}
	}
	return contents, nil
}

func withdrawal(seq uint64, contents []event.Content) storage.Redaction {
	r := storage.Redaction{Seq: seq}
	for _, c := range contents {
		r.Digests = append(r.Digests, c.Digest)
	}
	return r
}

// redactedBy is the event that has redacted a record; false if none has.
func (l *Ledger) redactedBy(ctx context.Context, seq uint64) (by uint64, redacted bool, err error) {
	by, err = l.store.Redaction(ctx, seq)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("redaction of event %d: %w", seq, err)
	}
	return by, true, nil
}

// Redact erases the content of the records of a set (spec: Redactions), with as many events as it
// takes, each of which is complete in itself: what is cut short, by ctx or an error,
// goes on when it is asked for again. Events without content and records that are
// redacted already are passed over. done is called after every event, with the
// number of records that it is about; its error ends it. reason and actor are those
// of record.NewRedaction and record.Event.
func (l *Ledger) Redact(ctx context.Context, of *SeqSet, reason, actor string, done func(Ack, int) error) error {
	var decoder event.Decoder
	next := new(redaction)
	for seq := range of.All() {
		contents, skip, err := l.toRedact(ctx, &decoder, seq)
		if err != nil {
			return err
		}
		if skip {
			continue
		}
		if next.add(seq, contents) {
			continue
		}
		if err := l.redact(ctx, next, reason, actor, done); err != nil {
			return err
		}
		next = new(redaction)
		next.add(seq, contents)
	}
	if len(next.withdrawn) == 0 {
		return nil
	}
	return l.redact(ctx, next, reason, actor, done)
}

// toRedact is the content of a record, unless there is nothing to erase.
func (l *Ledger) toRedact(ctx context.Context, d *event.Decoder, seq uint64) (contents []event.Content, skip bool, err error) {
	if _, skip, err = l.redactedBy(ctx, seq); skip || err != nil {
		return nil, skip, err
	}
	contents, err = l.contents(ctx, d, seq)
	return contents, len(contents) == 0, err
}

// redaction is one content_redacted event in the making.
type redaction struct {
	seqs      record.SeqList
	withdrawn []storage.Redaction
	pieces    int
}

// add takes a record into the event; false if it has no room for it.
func (r *redaction) add(seq uint64, contents []event.Content) bool {
	if r.pieces > 0 && r.pieces+len(contents) > maxWithdrawn || !r.seqs.Add(seq) {
		return false
	}
	r.withdrawn = append(r.withdrawn, withdrawal(seq, contents))
	r.pieces += len(contents)
	return true
}

func (l *Ledger) redact(ctx context.Context, r *redaction, reason, actor string, done func(Ack, int) error) error {
	s, err := l.PrepareVerb(record.NewRedaction(reason, &r.seqs), actor, "")
	if err != nil {
		return err
	}
	s.Redactions = r.withdrawn
	ticket, err := l.Enqueue(ctx, s)
	if err != nil {
		return err
	}
	ack, err := ticket.Wait()
	if err != nil {
		return err
	}
	return done(ack, len(r.withdrawn))
}
