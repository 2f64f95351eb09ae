package audit

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
)

// refusalMembers are the members of the event that logs a refusal.
var refusalMembers = [...]member{{"digest", text, always}, {"first_seq", integer, sometimes}, {"idempotency_key", text, sometimes},
	{"kind", text, always}, {"mismatches", integer, always}, {"reason", text, always}, {"run_id", text, sometimes}}

// manyChecks is the size, in bytes, of checks beyond which a refusal may have left some
// out.
const manyChecks = 16 << 10

// checkRefusal checks the event that logs a refusal (2.4, 2.7).
func (w *walk) checkRefusal(e *event) error {
	var m [len(refusalMembers)]pyjson.Value
	if err := e.members("its record", e.record, refusalMembers[:], m[:]); err != nil {
		return err
	}
	kind, reason := record.Kind(m[3].Text()), record.Refusal(m[5].Text())
	facts, known := FactsOf(string(kind))
	if !known || facts.Kind() == record.RecordRefused || facts.Kind() == record.LedgerCreated {
		return e.damaged("it refuses a %.100q", kind)
	}
	byKey := reason == record.RefusedKey
	if !byKey && reason != record.RefusedMismatch || byKey != (m[1].Kind() != pyjson.Absent) || byKey != (m[2].Kind() != pyjson.Absent) {
		return e.damaged("its reason is %.100q; a key and the event that holds it are there where that is the reason, and nowhere else", reason)
	}
	failed, ok := count(m[4])
	if listed := uint64(e.checks.Len()); !ok || listed > failed || listed < failed && len(e.checks.Raw()) < manyChecks || failed == 0 && !byKey && w.options.Strict {
		return e.damaged("it has %d failed checks, and lists %d", failed, listed)
	}
	for name, check := range e.checks.Members() {
		if string(check.Member("result").Text()) != string(record.Mismatch) {
			return checkDamaged(e.seq, string(name.Text()), "its result is %.100s, only those that failed are listed", check.Member("result").Raw())
		}
		c := claims{e: e}
		if err := c.check(field{name: string(name.Text()), effective: hash(check.Member("computed"))}); err != nil {
			return err
		}
	}
	return w.use(e, m[2], m[0], kind)
}

// Members of the records of verbs (2.8). What is not asked for but known to the ledger,
// no digest covers.
var (
	stateMembers = [...]member{{"digest", text, always}, {"idempotency_key", text, sometimes}, {"reason", text, always},
		{"record_seq", integer, always}, {"state", text, always}}
	validationMembers = [...]member{{"content_fingerprint", nullable, always}, {"digest", text, always}, {"idempotency_key", text, sometimes},
		{"path_id", text, always}, {"project", text, always}, {"reason", text, sometimes}, {"record_seq", integer, always}, {"validated", truth, always}}
	registrationMembers = [...]member{{"chunk_hashes", array, sometimes}, {"digest", text, always}, {"idempotency_key", text, sometimes},
		{"reason", text, sometimes}, {"source_id", text, always}, {"title", text, sometimes}}
	revocationMembers = [...]member{{"digest", text, always}, {"idempotency_key", text, sometimes}, {"reason", text, sometimes}, {"source_id", text, always}}
	rotationMembers   = [...]member{{"digest", text, always}, {"handover", text, sometimes}, {"idempotency_key", text, always}, {"previous_key", text, always},
		{"step", text, always}, {"verifier_key", text, always}}
	redactionMembers = [...]member{{"digest", text, always}, {"idempotency_key", text, sometimes}, {"reason", text, always}, {"seqs", array, always}}
)

// checkVerb checks an event that changes the state of something (2.8).
func (w *walk) checkVerb(e *event) error {
	known := redactionMembers[:]
	covered := []string{"digest", "idempotency_key"}
	switch e.kind {
	case record.RecordStateChanged:
		known = stateMembers[:]
	case record.PathValidated:
		known = validationMembers[:]
		covered = append(covered, "content_fingerprint", "record_seq")
	case record.SourceRegistered:
		known = registrationMembers[:]
	case record.SourceRevoked:
		known = revocationMembers[:]
	case record.KeyRotated:
		known = rotationMembers[:]
	}
	if err := e.members("its record", e.record, known, nil); err != nil {
		return err
	}
	if err := e.noChecks(); err != nil {
		return err
	}
	digest := e.record.Member("digest")
	if want := digestOf(e.record, covered...); hex.EncodeToString(want[:]) != string(digest.Text()) {
		return checkDamaged(e.seq, "digest", "it is %.100s, what the event asks for makes it %x", digest.Text(), want)
	}
	if err := w.use(e, e.record.Member("idempotency_key"), digest, e.kind); err != nil {
		return err
	}
	switch {
	case e.kind == record.ContentRedacted:
		return w.checkList(e)
	case e.kind == record.KeyRotated:
		return w.checkRotation(e)
	case e.kind == record.RecordStateChanged && w.options.Strict:
		return w.checkStateChange(e)
	case e.kind == record.PathValidated && w.options.Strict:
		return w.checkValidation(e)
	}
	return nil
}

// checkStateChange checks that a state is one, and is given to a record that has one.
func (w *walk) checkStateChange(e *event) error {
	state := e.record.Member("state").Text()
	if !slices.Contains(record.States[:], record.State(state)) || len(e.record.Member("reason").Text()) == 0 {
		return e.damaged("it changes a record's state to %.100q, for the reason %.100q", state, e.record.Member("reason").Text())
	}
	target, err := w.target(e)
	if err == nil && !target.Kind().HasState() {
		err = e.damaged("it changes the state of event %s, which is a %s and has none", e.record.Member("record_seq").Raw(), target.Kind())
	}
	return err
}

// target are the facts of the earlier event that an event is about.
func (w *walk) target(e *event) (Facts, error) {
	seq, ok := count(e.record.Member("record_seq"))
	if !ok || seq >= e.seq {
		return 0, e.damaged("it is about event %.100s, which is not before it", e.record.Member("record_seq").Raw())
	}
	return w.facts(seq)
}

// facts are those of an event before, as Past has them.
func (w *walk) facts(seq uint64) (Facts, error) {
	facts, err := w.past.Facts(seq)
	if err == nil && !facts.known() {
		err = fmt.Errorf("what is remembered of event %d is damaged: %#02x is of no kind", seq, uint8(facts))
	}
	return facts, err
}

// checkValidation checks that what is validated is a path as an earlier record has it.
// Its path_id may be longer than that of the record (1.6).
func (w *walk) checkValidation(e *event) error {
	target, err := w.target(e)
	if err != nil {
		return err
	}
	seq, _ := count(e.record.Member("record_seq"))
	if target.Kind() != record.PathFingerprint {
		return e.damaged("it validates event %d, which is a %s and no path", seq, target.Kind())
	}
	validated, err := w.walkedEvent(seq)
	if err != nil {
		return err
	}
	path := validated.Member("record")
	id := path.Member("hashes").Member("path_id").Text()
	if !bytes.Equal(path.Member("project").Raw(), e.record.Member("project").Raw()) ||
		!bytes.Equal(path.Member("hashes").Member("content_fingerprint").Raw(), e.record.Member("content_fingerprint").Raw()) ||
		!bytes.HasPrefix(e.record.Member("path_id").Text(), id[:min(shortID, len(id))]) {
		return e.damaged("it validates what event %d does not say: path %.100q of project %.100q with the content %.100s", seq,
			e.record.Member("path_id").Text(), e.record.Member("project").Text(), e.record.Member("content_fingerprint").Raw())
	}
	return nil
}

// checkList checks what a content_redacted event says itself: which records before
// it are redacted. They are records, and name content.
func (w *walk) checkList(e *event) error {
	list, err := record.ParseSeqs(e.record.Member("seqs"))
	if err != nil {
		return e.damaged("its list of redacted records: %v", err)
	}
	if list.Last() >= e.seq {
		return e.damaged("it redacts record %d, which is not before it", list.Last())
	}
	for seq := range list.All() {
		facts, err := w.facts(seq)
		if err != nil {
			return err
		}
		if facts&hasContent == 0 {
			return damaged(KindRedaction, e.seq, "it redacts event %d, a %s that names no content", seq, facts.Kind())
		}
		if err := w.past.Mark(seq, IsRedacted); err != nil {
			return err
		}
	}
	e.list = list
	return nil
}
