package audit

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// refusalMembers are the members of the event that logs a refusal.
var refusalMembers = [...]member{{"digest", digestText, always}, {"first_seq", natural, sometimes}, {"idempotency_key", digestText, sometimes},
	{"kind", text, always}, {"mismatches", natural, always}, {"reason", text, always}, {"run_id", identifier, sometimes}}

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
	if !kind.IsRecord() && (!byKey || e.checks.Len() > 0 || m[6].Kind() != pyjson.Absent) {
		return e.damaged("it refuses a %s, which has neither claims nor a run_id", kind)
	}
	failed, ok := count(m[4])
	if listed := uint64(e.checks.Len()); !ok || listed > failed || listed < failed && len(e.checks.Raw()) < manyChecks || failed == 0 && !byKey && w.options.Strict {
		return e.damaged("it has %d failed checks, and lists %d", failed, listed)
	}
	for name, check := range e.checks.Members() {
		if string(check.Member("result").Text()) != string(record.Mismatch) {
			return checkDamaged(e.seq, string(name.Text()), "its result is %.100s, only those that failed are listed", check.Member("result").Raw())
		}
		f := field{name: string(name.Text()), effective: hash(check.Member("computed"))}
		var known bool
		if f.form, known = refusedForm(kind, f.name); !known {
			return e.damaged("it refuses a %s for its %.100q, which that has not", kind, f.name)
		}
		if f.effective == nil && !strings.HasPrefix(f.name, rules.StagePrefix) || f.effective != nil && !f.isHash(f.effective) {
			return checkDamaged(e.seq, f.name, "computed is %.100s, which is no such hash", orNull(f.effective))
		}
		c := claims{e: e}
		if err := c.check(f); err != nil {
			return err
		}
	}
	return w.use(e, m[2], m[0], kind)
}

// refusedForm is the form of the hash whose check has failed in a refused record; false if
// records of that kind have none of that name.
func refusedForm(kind record.Kind, name string) (form func([]byte) bool, known bool) {
	switch kind {
	case record.IPCRecord:
		return nil, slices.ContainsFunc(ipcHashMembers[:], func(m member) bool { return m.name == name })
	case record.RunDAG:
		dimension := strings.TrimPrefix(name, "cache_dimensions.")
		base := slices.ContainsFunc(rules.BaseHashes[:], func(b struct{ Name, Content, Stage string }) bool { return b.Name == dimension })
		return nil, base || strings.HasPrefix(name, rules.StagePrefix) || name == "root" || name == "cache_key" || name == "dag.preflight_payload"
	case record.CitationSet:
		number, found := strings.CutSuffix(strings.TrimPrefix(name, "citations/"), "/chunk_hash")
		n, err := strconv.Atoi(number)
		return rules.IsChunkHash, found && err == nil && n >= 0 && name == "citations/"+strconv.Itoa(n)+"/chunk_hash"
	case record.PathFingerprint:
		if name == "path_id" {
			return rules.IsPathID, true
		}
		return digitsOf(rules.FingerprintDigits), name == "content_fingerprint" || name == "raw_content_fingerprint"
	}
	return nil, false
}

// Members of the records of verbs (2.8). What is not asked for but known to the ledger,
// no digest covers.
var (
	stateMembers = [...]member{{"digest", digestText, always}, {"idempotency_key", digestText, sometimes}, {"reason", reasonText | formFilled, always},
		{"record_seq", natural, always}, {"state", text, always}}
	validationMembers = [...]member{{"content_fingerprint", nullable, always}, {"digest", digestText, always}, {"idempotency_key", digestText, sometimes},
		{"path_id", text, always}, {"project", nameText, always}, {"reason", reasonText, sometimes}, {"record_seq", natural, always}, {"validated", truth, always}}
	registrationMembers = [...]member{{"chunk_hashes", array, sometimes}, {"digest", digestText, always}, {"idempotency_key", digestText, sometimes},
		{"reason", reasonText, sometimes}, {"source_id", identifier, always}, {"title", nameText, sometimes}}
	revocationMembers = [...]member{{"digest", digestText, always}, {"idempotency_key", digestText, sometimes}, {"reason", reasonText, sometimes}, {"source_id", identifier, always}}
	rotationMembers   = [...]member{{"digest", digestText, always}, {"handover", text, sometimes}, {"idempotency_key", digestText, always}, {"previous_key", text, always},
		{"step", text, always}, {"verifier_key", text, always}}
	redactionMembers = [...]member{{"digest", digestText, always}, {"idempotency_key", digestText, sometimes}, {"reason", reasonText | formFilled, always}, {"seqs", array, always}}
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
		if key := record.RotationKey(w.history.Changes() + 1); string(e.record.Member("idempotency_key").Text()) != hex.EncodeToString(key[:]) {
			return damaged(KindKey, e.seq, "it claims the key %s, that of this change of keys is %x", e.record.Member("idempotency_key").Text(), key)
		}
		return w.checkRotation(e)
	case e.kind == record.SourceRegistered:
		if err := checkChunks(e); err != nil {
			return err
		}
		return w.useSource(e)
	case e.kind == record.SourceRevoked:
		return w.useSource(e)
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
	if !slices.Contains(record.States[:], record.State(state)) {
		return e.damaged("it changes a record's state to %.100q, which is none", state)
	}
	target, err := w.target(e)
	if err == nil && !target.Kind().HasState() {
		err = e.damaged("it changes the state of event %s, which is a %s and has none", e.record.Member("record_seq").Raw(), target.Kind())
	}
	if err != nil || w.stored != nil {
		return err
	}
	seq, _ := count(e.record.Member("record_seq"))
	return w.useState(e, seq)
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
	id := e.record.Member("path_id").Text()
	if !bytes.Equal(path.Member("project").Raw(), e.record.Member("project").Raw()) ||
		!bytes.Equal(path.Member("hashes").Member("content_fingerprint").Raw(), e.record.Member("content_fingerprint").Raw()) ||
		!rules.IsPathID(id) || !bytes.HasPrefix(routeID(path), id) {
		return e.damaged("it validates what event %d does not say: path %.100q of project %.100q with the content %.100s", seq,
			e.record.Member("path_id").Text(), e.record.Member("project").Text(), e.record.Member("content_fingerprint").Raw())
	}
	return nil
}

// checkChunks checks that the chunks of a source are hashes, each listed once.
func checkChunks(e *event) error {
	listed := make(map[string]bool)
	for chunk := range e.record.Member("chunk_hashes").Elements() {
		text := chunk.Text()
		if !rules.IsChunkHash(text) || listed[string(text)] {
			return e.damaged("it registers a source with the chunk %.100s, which is no chunk's hash or is there twice", chunk.Raw())
		}
		listed[string(text)] = true
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
