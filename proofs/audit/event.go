package audit

import (
	"bytes"
	"crypto/sha256"
	"strconv"
	"time"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// eventVersion is the version of event bodies (2.2).
const eventVersion = 1

// heldLimit bounds how many digests the walk remembers.
const heldLimit = 1 << 16

// checkEvent checks the body of an event (2.2) and what it names beside the log.
func (w *walk) checkEvent(seq uint64, body []byte) error {
	if err := w.event.Parse(body); err != nil {
		return damaged(KindEntry, seq, "its body is not JSON: %v", err)
	}
	e := w.event.Root()
	if !bytes.Equal(e.AppendCanonical(nil, pyjson.Compact), body) {
		return damaged(KindEntry, seq, "its body is not in canonical form")
	}
	if pointer, found := e.LoneSurrogate(); found {
		return damaged(KindEntry, seq, "it has a lone surrogate at %q", pointer)
	}
	if err := w.checkMembers(seq, e); err != nil {
		return err
	}
	if err := w.checkTime(seq, e); err != nil {
		return err
	}
	if err := w.checkFirst(seq, e); err != nil {
		return err
	}
	list, err := w.checkList(seq, e)
	if err != nil || w.options.LogOnly {
		return err
	}
	if err := w.checkContent(seq, e); err != nil {
		return err
	}
	if err := w.checkRedacted(seq, list); err != nil {
		return err
	}
	return w.checkKey(seq, e)
}

// checkMembers checks what every event has.
func (w *walk) checkMembers(seq uint64, e pyjson.Value) error {
	if e.Kind() != pyjson.Object {
		return damaged(KindEntry, seq, "its body is not an object")
	}
	for _, name := range [...]string{"actor", "kind"} {
		if e.Member(name).Kind() != pyjson.String {
			return damaged(KindEntry, seq, "its %s is not a string", name)
		}
	}
	for _, name := range [...]string{"checks", "record"} {
		if e.Member(name).Kind() != pyjson.Object {
			return damaged(KindEntry, seq, "its %s is not an object", name)
		}
	}
	if n, ok := count(e.Member("seq")); !ok || n != seq {
		return damaged(KindEntry, seq, "its seq is %.100s", e.Member("seq").Raw())
	}
	if n, ok := count(e.Member("v")); !ok || n != eventVersion {
		return damaged(KindEntry, seq, "its v is %.100s, known is %d", e.Member("v").Raw(), eventVersion)
	}
	if n, ok := count(e.Member("rules")); !ok || n != record.Rules {
		return damaged(KindEntry, seq, "its rules are %.100s, known are %d", e.Member("rules").Raw(), record.Rules)
	}
	ledger := string(e.Member("ledger").Text())
	if seq == 0 && w.ledger == "" {
		w.ledger = ledger
	}
	if ledger == "" || ledger != w.ledger {
		return damaged(KindEntry, seq, "its ledger is %.100q, this one is %.100q", ledger, w.ledger)
	}
	return nil
}

// checkTime checks form and order of the event's time.
func (w *walk) checkTime(seq uint64, e pyjson.Value) error {
	text := string(e.Member("time").Text())
	at, err := time.Parse(record.TimeLayout, text)
	if err != nil || at.Format(record.TimeLayout) != text {
		return damaged(KindEntry, seq, "its time %.100q is not RFC 3339 in UTC with microseconds", text)
	}
	now := at.UnixMicro()
	if seq > 0 && now < w.time {
		return damaged(KindEntry, seq, "its time %s is before the previous event's", text)
	}
	w.time = now
	return nil
}

// checkFirst checks that the first event, and no other, creates the ledger with
// the origin and one of the keys that are verified with.
func (w *walk) checkFirst(seq uint64, e pyjson.Value) error {
	created := string(e.Member("kind").Text()) == string(record.LedgerCreated)
	if created != (seq == 0) {
		return damaged(KindEntry, seq, "its kind is %.100q", e.Member("kind").Text())
	}
	if !created {
		return nil
	}
	origin, key := string(e.Member("record").Member("origin").Text()), string(e.Member("record").Member("verifier_key").Text())
	if origin != w.report.Checkpoint.Origin {
		return damaged(KindEntry, seq, "it creates a ledger of origin %.100q, the checkpoint's is %.100q", origin, w.report.Checkpoint.Origin)
	}
	for _, v := range w.options.Verifiers {
		if v.String() == key {
			return nil
		}
	}
	return damaged(KindEntry, seq, "it creates a ledger with the key %.200q, which is not the log's", key)
}

// checkContent checks every piece of content that the event names (2.3), and that
// none is there which was to be erased.
func (w *walk) checkContent(seq uint64, e pyjson.Value) error {
	by, redacted, err := w.redactedBy(seq)
	if err == nil && redacted {
		err = w.checkRedactor(seq, by)
	}
	if err != nil {
		return err
	}
	for name, named := range e.Member("record").Member("content").Members() {
		digest, err := proofs.ParseHash(string(named.Member("sha256").Text()))
		size, ok := count(named.Member("size"))
		if err != nil || !ok {
			return damaged(KindEntry, seq, "its content %.100q has no digest and size", name.Text())
		}
		good, wrong := &w.report.Contents, ""
		if redacted {
			good = &w.report.Redacted
			wrong, err = w.notErased(seq, digest)
		} else {
			wrong, err = w.wrongContent(seq, digest, size)
		}
		if err != nil {
			return err
		}
		if wrong != "" {
			return &Damage{Kind: KindContent, Seq: seq, Name: string(name.Text()), Message: wrong}
		}
		*good++
	}
	return nil
}

// wrongContent says what is wrong with a piece of content that a record needs, if
// anything is.
func (w *walk) wrongContent(seq uint64, digest proofs.Hash, size uint64) (string, error) {
	held, ok := w.held[digest]
	if !ok {
		content, err := w.source.Content(w.ctx, digest)
		if err != nil {
			return "missing: " + err.Error(), unread(err, nil)
		}
		if sha256.Sum256(content) != digest {
			return "altered: its bytes do not have the digest that the event names", nil
		}
		if len(w.held) == heldLimit {
			clear(w.held)
		}
		held = len(content)
		w.held[digest] = held
	}
	if wrong, err := w.notCounted(seq, digest); wrong != "" || err != nil {
		return wrong, err
	}
	if uint64(held) != size {
		return "it has " + strconv.Itoa(held) + " bytes, the event says " + strconv.FormatUint(size, 10), nil
	}
	return "", nil
}

// checkKey checks that the event's idempotency key leads to it (2.7), or, for
// the refusal of a second record under one key, to the event that holds it.
func (w *walk) checkKey(seq uint64, e pyjson.Value) error {
	text := e.Member("record").Member("idempotency_key")
	if text.Kind() == pyjson.Absent {
		return nil
	}
	key, err := proofs.ParseHash(string(text.Text()))
	if err != nil {
		return damaged(KindEntry, seq, "its idempotency key: %v", err)
	}
	holder := seq
	if string(e.Member("kind").Text()) == string(record.RecordRefused) {
		first, ok := count(e.Member("record").Member("first_seq"))
		if !ok || first >= seq {
			return damaged(KindEntry, seq, "it refuses a record for a key that no event before it holds")
		}
		holder = first
	}
	got, err := w.source.Key(w.ctx, key)
	if err != nil {
		return unread(err, damaged(KindKey, seq, "key %x is missing: %v", key, err))
	}
	if got.Seq != holder {
		return damaged(KindKey, seq, "key %x leads to event %d, not to %d", key, got.Seq, holder)
	}
	if holder == seq {
		digest, err := proofs.ParseHash(string(e.Member("record").Member("digest").Text()))
		if err != nil {
			return damaged(KindEntry, seq, "its record's digest: %v", err)
		}
		if want := record.KeyedDigest(record.Kind(e.Member("kind").Text()), digest); got.Record != want {
			return damaged(KindKey, seq, "key %x stands for the record %x, the event is about %x", key, got.Record, want)
		}
	}
	w.report.Keys++
	return nil
}

// count reads an integer from 0 to 2^64-1.
func count(v pyjson.Value) (uint64, bool) {
	n, err := strconv.ParseUint(string(v.Raw()), 10, 64)
	return n, err == nil && v.Kind() == pyjson.Integer
}
