package verify

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/ledger/record/members"
	"colophon/ledger/record/moment"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/strict"
	"colophon/proofs"
)

// verifyRecord checks that an event describes the posted record, and that its values match those
// recomputed from the record. It does not compare the digests of content and payload members. The
// caller must have verified the event. The error wraps ErrRecordMismatch if the event describes
// another record, and ErrValueMismatch if a value differs.
func verifyRecord(body, posted []byte) error {
	var document pyjson.Document
	if err := document.Parse(body); err != nil {
		return fmt.Errorf("%w: parsing the event: %w", proofs.ErrMalformed, err)
	}
	root := document.Root()
	e := event.Read(root)
	kind, refused := e.Kind, e.Kind == record.KindRecordRefused
	if refused {
		kind = e.Refusal().Kind
	}
	limits := record.WidestLimits()
	if e.Record.Member("payload_members").Kind() != pyjson.Absent {
		limits = limits.WithPayloadMemberSecret(members.UnknownSecret)
	}
	r, err := parsePosted(limits, kind, posted)
	if err != nil {
		return err
	}
	defer r.Release()
	if want := e.RecordDigest(); r.Digest != want {
		return fmt.Errorf("%w: the record's digest is %x, but the digest in the event is %x", ErrRecordMismatch, r.Digest, want)
	}
	if rules := string(e.Rules.Raw()); rules != strconv.Itoa(record.RulesVersion) {
		return fmt.Errorf("%w: the event was computed with version %s of the rules, but this program implements version %d; verify with the colophon version that wrote the event", ErrValueMismatch, rules, record.RulesVersion)
	}
	if refusal := e.Refusal(); refused && refusal.Reason == record.RefusalKeyConflict && e.IdempotencyKey() == nil {
		return fmt.Errorf("%w: the refusal has no idempotency key", proofs.ErrMalformed)
	}
	if !moment.IsEventTime(e.TimeText) {
		return fmt.Errorf("%w: the event's time is %.100q, which is not an RFC 3339 time in UTC with microseconds", proofs.ErrMalformed, e.TimeText)
	}
	expected := e.RecomputeBody(r)
	if bytes.Equal(expected, body) {
		return nil
	}
	var recomputed pyjson.Document
	if err := recomputed.Parse(expected); err != nil {
		return fmt.Errorf("recomputing the event: %w", err)
	}
	pointer, says, computed, found := event.FirstDifference(root, recomputed.Root(), func(pointer string, has, makes pyjson.Value) bool {
		return pointer == contentPointer || has.Kind() == makes.Kind() && strings.HasPrefix(pointer, membersPointer)
	})
	if !found {
		return nil // the events differ only in JSON spelling or in digests that are not compared
	}
	return fmt.Errorf("%w: %s: the event has %s, but the computed value is %s", ErrValueMismatch, pointer, formatForMessage(says), formatForMessage(computed))
}

// parsePosted parses a record of the given kind. posted may also be a line of an import file, which
// contains the kind and the record.
func parsePosted(limits record.Limits, kind record.Kind, posted []byte) (*record.Record, error) {
	var document pyjson.Document
	if document.ParseLimited(posted, record.MaxValues) == nil {
		root := document.Root()
		if own := root.Member("kind"); own.IsGiven() && root.Member("record").IsGiven() {
			if string(own.Text()) != string(kind) {
				return nil, fmt.Errorf("%w: the record's kind is %.100q, but the event describes a record of kind %.100q", ErrRecordMismatch, own.Text(), kind)
			}
			posted = root.Member("record").Raw()
		}
	}
	r, err := limits.ParseRecord(kind, posted)
	if refused := (*strict.Error)(nil); errors.As(err, &refused) {
		return nil, fmt.Errorf("%w: the file is not a record of kind %.100q: %w", ErrRecordMismatch, kind, err)
	}
	return r, err
}

// contentPointer points to the content digests, which cover the bytes exactly as they were posted.
// verifyRecord does not compare them, because the same record in another JSON spelling can have
// different content digests.
const contentPointer = "/record/content"

// membersPointer is the prefix of the JSON pointers to the digests of payload members. verifyRecord
// does not compare these digests, because computing them requires the ledger's secret.
const membersPointer = "/record/payload_members/"

// formatForMessage formats a value for an error message, truncated to 200 bytes.
func formatForMessage(v pyjson.Value) []byte {
	const most = 200
	text := event.FormatValue(v)
	if len(text) > most {
		return append(text[:most:most], "…"...)
	}
	return text
}
