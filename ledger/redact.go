package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/ledger/record/seqs"
	"colophon/storage"
)

// maxRedactedPieces is the largest number of pieces of content that one redaction event deletes, unless
// a single record has more. Other writers wait while the commit deletes them.
const maxRedactedPieces = 4 << 10

// redactedPieceBytes is the approximate number of bytes that a redaction adds to the write-ahead log.
// Each piece of content that it deletes adds the same number again.
const redactedPieceBytes = 128

// PrepareRedaction returns the redaction of the record at seq, including the digests of its
// content. The sequencer sets its RedactingSeq later. Its Digests is empty if the event at seq does
// not refer to content, which is the case for all events other than records.
func (l *Ledger) PrepareRedaction(ctx context.Context, seq uint64) (storage.Redaction, error) {
	contents, err := l.reader.contents(ctx, new(event.Decoder), seq)
	if err != nil {
		return storage.Redaction{}, err
	}
	return redactionOf(seq, contents), nil
}

// contents returns the pieces of content that an event refers to, without duplicate digests.
func (r reader) contents(ctx context.Context, d *event.Decoder, seq uint64) ([]event.Content, error) {
	entry, err := r.Entry(ctx, seq)
	if err != nil {
		return nil, fmt.Errorf("reading entry %d: %w", seq, err)
	}
	e, err := d.Decode(entry)
	if err != nil {
		return nil, fmt.Errorf("decoding event %d: %w", seq, err)
	}
	var contents []event.Content
	for c := range e.Contents() {
		if !slices.ContainsFunc(contents, func(b event.Content) bool { return b.Digest == c.Digest }) {
			contents = append(contents, c)
		}
	}
	return contents, nil
}

func redactionOf(seq uint64, contents []event.Content) storage.Redaction {
	r := storage.Redaction{Seq: seq}
	for _, c := range contents {
		r.Digests = append(r.Digests, c.Digest)
	}
	return r
}

// redactedBy returns the seq of the event that redacted the record at seq. redacted is false if no
// event has redacted it.
func (r reader) redactedBy(ctx context.Context, seq uint64) (by uint64, redacted bool, err error) {
	by, err = r.RedactingSeq(ctx, seq)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("reading the redaction of event %d: %w", seq, err)
	}
	return by, true, nil
}

// Redact erases the content of a set of records (spec: Redactions). It appends as many events as
// necessary. Each event takes effect on its own, so after an error or the cancellation of ctx,
// another call can continue the work. Redact skips events without content and records that are
// already redacted. After each event, it calls done with the number of records in that event. If
// done returns an error, Redact stops and returns that error. For reason and actor, see
// record.NewRedaction and record.EventContext.
func (l *Ledger) Redact(ctx context.Context, of *seqs.Set, reason, actor string, done func(Ack, int) error) error {
	var decoder event.Decoder
	next := new(redaction)
	for seq := range of.All() {
		contents, skip, err := l.reader.toRedact(ctx, &decoder, seq)
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
	if len(next.redactions) == 0 {
		return nil
	}
	return l.redact(ctx, next, reason, actor, done)
}

// toRedact returns the pieces of content to erase for a record. skip is true if the record has no
// content or is already redacted.
func (r reader) toRedact(ctx context.Context, d *event.Decoder, seq uint64) (contents []event.Content, skip bool, err error) {
	if _, skip, err = r.redactedBy(ctx, seq); skip || err != nil {
		return nil, skip, err
	}
	contents, err = r.contents(ctx, d, seq)
	return contents, len(contents) == 0, err
}

// redaction collects the records of one content_redacted event.
type redaction struct {
	seqs       seqs.List
	redactions []storage.Redaction
	pieces     int
}

// add adds a record to the event. It returns false, and does not add the record, if the event is
// full.
func (r *redaction) add(seq uint64, contents []event.Content) bool {
	if r.pieces > 0 && r.pieces+len(contents) > maxRedactedPieces || !r.seqs.Append(seq) {
		return false
	}
	r.redactions = append(r.redactions, redactionOf(seq, contents))
	r.pieces += len(contents)
	return true
}

func (l *Ledger) redact(ctx context.Context, r *redaction, reason, actor string, done func(Ack, int) error) error {
	s, err := l.PrepareAction(record.NewRedaction(reason, &r.seqs), actor, "")
	if err != nil {
		return err
	}
	s.Redactions = r.redactions
	ticket, err := l.Enqueue(ctx, s)
	if err != nil {
		return err
	}
	ack, err := ticket.Wait()
	if err != nil {
		return err
	}
	return done(ack, len(r.redactions))
}
