package recompute

import (
	"bytes"
	"colophon/ledger/record/members"
	"colophon/ledger/record/moment"
	"colophon/ledger/record/strict"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/proofs"
)

// Rebuilder rebuilds records from their events and content, and compares each event with the one
// that the ledger would write for the rebuilt record (spec: Rebuilding a record). Only one
// goroutine may use it at a time.
type Rebuilder struct {
	// RebuiltRecords counts the rebuilt records that yield exactly their original events.
	RebuiltRecords uint64
	// ConfirmedRecords counts the rebuilt records whose digest also equals the digest in the event.
	ConfirmedRecords uint64
	// UnconfirmableRecords counts the rebuilt records whose cache key and digest cannot be compared
	// with those in the event, because both cover texts that the event leaves out.
	UnconfirmableRecords uint64
	// PayloadMemberSecret is the secret that keys the digests of payload members. If it is nil,
	// only the JSON pointers of the members are compared.
	PayloadMemberSecret *members.Secret

	event, again pyjson.Document
	normal       []byte // scratch
}

// ContentFunc returns the piece of content that an event names. The returned bytes must have the
// given digest.
type ContentFunc func(name string, digest proofs.Hash) ([]byte, error)

// Check rebuilds the record of an event in which a walk has found no damage, and compares the
// result with the event. It ignores events without a record. It returns an *Error if the rebuilt
// record does not yield the event, and returns any error from content unchanged.
func (b *Rebuilder) Check(body []byte, content ContentFunc) error {
	if err := b.event.Parse(body); err != nil {
		return malformed("the event's body is not JSON: %v", err)
	}
	e := event.Read(b.event.Root())
	if !e.Kind.IsRecord() {
		return nil
	}
	n := &normalForm{kind: e.Kind, record: e.Record, checks: e.Checks, unknown: hasUnknownText(e.Record), secret: b.PayloadMemberSecret}
	if n.anySecret = b.PayloadMemberSecret == nil && e.Record.Member("payload_members").Kind() != pyjson.Absent; n.anySecret {
		n.secret = members.UnknownSecret
	}
	var err error
	if n.content, err = readContent(&e, content); err != nil {
		return err
	}
	if b.normal, err = n.append(b.normal[:0]); err != nil {
		return wrongField("content", "a piece of content that must be JSON cannot be parsed: %v", err)
	}
	if err := b.compare(&e, n); err != nil {
		return err
	}
	b.RebuiltRecords++
	if n.unknown {
		b.UnconfirmableRecords++
		return nil
	}
	return b.confirm(n)
}

// hasUnknownText reports whether the cache key of a run covers a text that the event leaves out
// because it is too long or not valid UTF-8. Only version dimensions are texts. All others are
// hashes, which every event contains.
func hasUnknownText(detail pyjson.Value) bool {
	for _, name := range rules.CacheDimensions {
		if rules.IsVersionDimension(name) && detail.Member("cache_dimensions").Member(name).Kind() == pyjson.Null {
			return true
		}
	}
	return false
}

// readContent reads all pieces of content that an event names and returns them keyed by name.
func readContent(e *event.Event, content ContentFunc) (map[string][]byte, error) {
	pieces := make(map[string][]byte)
	for named := range e.Contents() {
		piece, err := content(string(named.Name), named.Digest)
		if err != nil {
			return nil, err
		}
		pieces[string(named.Name)] = piece
	}
	return pieces, nil
}

// compare compares the event with the one that the ledger would write for the rebuilt record.
func (b *Rebuilder) compare(e *event.Event, n *normalForm) error {
	r, err := record.WidestLimits().WithPayloadMemberSecret(n.secret).ParseRecord(n.kind, escapeSurrogates(b.normal))
	if refused := (*strict.Error)(nil); errors.As(err, &refused) {
		return wrongField("record", "the event's values and content do not form a valid record of kind %s: %v", n.kind, err)
	}
	if err != nil {
		return err
	}
	defer r.Release()
	if !moment.IsEventTime(e.TimeText) {
		return malformed("the event's time %.100q is invalid", e.TimeText)
	}
	if err := b.again.Parse(e.RecomputeBody(r)); err != nil {
		return fmt.Errorf("recomputing event %d: %w", e.Seq, err)
	}
	root := b.event.Root()
	if n.unknown && !cacheKeyFits(root) {
		return wrongField("cache_key", "the check does not match the hash")
	}
	if pointer, says, makes, found := event.FirstDifference(root, b.again.Root(), n.skips); found {
		return wrongField(pointer, "the event has %.200s, but the rebuilt record gives %.200s", event.FormatValue(says), event.FormatValue(makes))
	}
	return nil
}

// These are the pointers to values that compare cannot always compare directly. The record's digest
// is compared by confirm instead. The digests of content cover the bytes as they were posted. The
// digests of payload members depend on a secret that can be unknown, and the cache key can cover
// unknown texts.
const (
	digestPointer     = "/record/digest"
	contentPointer    = "/record/content/"
	cacheKeyPointer   = "/record/hashes/cache_key"
	cacheCheckPointer = "/checks/cache_key"
	membersPointer    = "/record/payload_members/"
)

// skips reports whether compare ignores the values at the given pointer. compare always ignores the
// digest. It ignores the values at the other pointers listed above only if they cannot be compared
// and both events have a value of the same type there.
func (n *normalForm) skips(pointer string, has, makes pyjson.Value) bool {
	if pointer == digestPointer {
		return true
	}
	unknown := n.unknown && (pointer == cacheKeyPointer || pointer == cacheCheckPointer)
	return has.Kind() == makes.Kind() && (unknown || strings.HasPrefix(pointer, contentPointer) || n.anySecret && strings.HasPrefix(pointer, membersPointer))
}

// cacheKeyFits reports whether the cache key of an event agrees with its check. The check must show
// that the ledger computed the key.
func cacheKeyFits(body pyjson.Value) bool {
	key, check := body.Member("record").Member("hashes").Member("cache_key"), body.Member("checks").Member("cache_key")
	shown, claimed := check.Member("computed"), check.Member("claimed")
	switch record.CheckResult(check.Member("result").Text()) {
	case record.ResultMatch, record.ResultComputed:
		return rules.IsDigest(key.Text()) && check.Len() == 1
	case record.ResultMismatch:
		return rules.IsDigest(key.Text()) && check.Len() == 3 && bytes.Equal(shown.Raw(), key.Raw()) && rules.IsDigest(claimed.Text()) && !bytes.Equal(claimed.Raw(), key.Raw())
	}
	return false
}

// confirm compares the digest of the rebuilt record with the one in the event. If they differ, the
// event may misstate whether a hash was claimed, so confirm looks for a check that would explain
// the difference.
func (b *Rebuilder) confirm(n *normalForm) error {
	if b.hasDigest(n) {
		b.ConfirmedRecords++
		return nil
	}
	digest := n.record.Member("digest").Text()
	for _, n.reversed = range reversible(n) {
		var err error
		if b.normal, err = n.append(b.normal[:0]); err != nil {
			return err
		}
		if b.hasDigest(n) {
			result := record.CheckResult(n.checks.Member(n.reversed).Member("result").Text())
			return wrongField(n.reversed, "the result is %s, but the record with the event's digest gives %s", result, opposite(result))
		}
	}
	return wrongField("digest", "the event has the digest %s, but no record that produces this event has that digest", digest)
}

// hasDigest reports whether the normal form in b.normal has the digest that the event states.
func (b *Rebuilder) hasDigest(n *normalForm) bool {
	sum := sha256.Sum256(b.normal)
	return hex.EncodeToString(sum[:]) == string(n.record.Member("digest").Text())
}

// reversible returns the names of up to 64 checks whose results do not follow from the rest of the
// event, so that the opposite result would also be possible.
func reversible(n *normalForm) []string {
	const most = 64
	var names []string
	for name, check := range n.checks.Members() {
		result := record.CheckResult(check.Member("result").Text())
		onlyEvent := n.kind != record.KindRunDAG || string(name.Text()) == "cache_key"
		if onlyEvent && (result == record.ResultMatch || result == record.ResultComputed) && len(names) < most {
			names = append(names, string(name.Text()))
		}
	}
	return names
}
