package audit

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"colophon/ledger/record"
	"colophon/ledger/record/rules"
)

// manyChecks is the size, in bytes, of checks beyond which a refusal may have left some
// out.
const manyChecks = 16 << 10

// checkRefusal checks the event that logs a refusal (spec: Refusals; Idempotency).
func (w *walk) checkRefusal(e *decoded) error {
	r := &e.Refusal
	facts, known := FactsOf(string(r.Kind))
	if !known || facts.Kind() == record.RecordRefused || facts.Kind() == record.LedgerCreated {
		return e.damaged("it refuses a %.100q", r.Kind)
	}
	byKey := r.Reason == record.RefusedKey
	if byKey && e.Common.Key == nil {
		return e.damaged("it refuses a record for a key, and does not name it")
	}
	if !r.Kind.IsRecord() && (!byKey || len(e.Checks) > 0 || e.Common.RunID != nil) {
		return e.damaged("it refuses a %s, which has neither claims nor a run_id", r.Kind)
	}
	listed, failed := uint64(len(e.Checks)), r.Mismatches
	if listed > failed || listed < failed && len(e.Event.Checks.Raw()) < manyChecks || failed == 0 && !byKey && w.options.Strict {
		return e.damaged("it has %d failed checks, and lists %d", failed, listed)
	}
	c := claims{e: e}
	for i := range e.Checks {
		check := &e.Checks[i]
		if check.Result != record.Mismatch {
			return checkDamaged(e.seq, check.Name, "its result is %.100s, only those that failed are listed", check.Result)
		}
		f := field{name: check.Name, effective: check.Computed}
		var known bool
		if f.form, known = refusedForm(r.Kind, f.name); !known {
			return e.damaged("it refuses a %s for its %.100q, which that has not", r.Kind, f.name)
		}
		if f.effective == nil && !strings.HasPrefix(f.name, rules.StagePrefix) || f.effective != nil && !f.isHash(f.effective) {
			return checkDamaged(e.seq, f.name, "computed is %.100s, which is no such hash", orNull(f.effective))
		}
		if err := c.check(f); err != nil {
			return err
		}
	}
	return w.use(e, r.Kind)
}

// ipcHashes are the hashes of an IPC record.
var ipcHashes = [...]string{"input_hash", "system_prompt_hash", "output_hash", "ipc_id", "ipc_id_advanced"}

// refusedForm is the form of the hash whose check has failed in a refused record; false if
// records of that kind have none of that name.
func refusedForm(kind record.Kind, name string) (form func([]byte) bool, known bool) {
	switch kind {
	case record.IPCRecord:
		return nil, slices.Contains(ipcHashes[:], name)
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

// checkVerb checks an event that changes the state of something (spec: States; Path validation;
// Sources; Redactions).
func (w *walk) checkVerb(e *decoded) error {
	if want := record.VerbDigest(e.Fields.(record.VerbFields)); want != e.Common.Digest {
		return checkDamaged(e.seq, "digest", "it is %x, what the event asks for makes it %x", e.Common.Digest, want)
	}
	if err := w.use(e, e.Kind); err != nil {
		return err
	}
	switch {
	case e.Kind == record.ContentRedacted:
		return w.checkList(e)
	case e.Kind == record.KeyRotated:
		key := record.RotationKey(w.history.Changes() + 1)
		if e.Common.Key == nil || *e.Common.Key != key {
			return damaged(KindKey, e.seq, "it does not claim the key of this change of keys, %x", key)
		}
		return w.checkRotation(e)
	case e.Kind == record.SourceRevoked && (e.Source.Listed || e.Source.Title != nil):
		return e.damaged("it revokes a source, and says more of it than why")
	case e.Kind == record.SourceRegistered || e.Kind == record.SourceRevoked:
		return w.useSource(e)
	case e.Kind == record.RecordStateChanged && w.options.Strict:
		return w.checkStateChange(e)
	case e.Kind == record.PathValidated && w.options.Strict:
		return w.checkValidation(e)
	}
	return nil
}

// checkStateChange checks that a state is one, and is given to a record that has one.
func (w *walk) checkStateChange(e *decoded) error {
	f := &e.State
	if !slices.Contains(record.States[:], record.State(f.State)) {
		return e.damaged("it changes a record's state to %.100q, which is none", f.State)
	}
	target, err := w.target(e, f.RecordSeq)
	if err == nil && !target.Kind().HasState() {
		err = e.damaged("it changes the state of event %d, which is a %s and has none", f.RecordSeq, target.Kind())
	}
	if err != nil || w.stored != nil {
		return err
	}
	return w.useState(e, f.RecordSeq)
}

// target are the facts of the earlier event that an event is about.
func (w *walk) target(e *decoded, seq uint64) (Facts, error) {
	if seq >= e.seq {
		return 0, e.damaged("it is about event %d, which is not before it", seq)
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
// Its path_id may be longer than that of the record (spec: Path id collisions).
func (w *walk) checkValidation(e *decoded) error {
	f := &e.Validation
	seq := f.RecordSeq
	target, err := w.target(e, seq)
	if err != nil {
		return err
	}
	if target.Kind() != record.PathFingerprint {
		return e.damaged("it validates event %d, which is a %s and no path", seq, target.Kind())
	}
	validated, err := w.walkedEvent(seq)
	if err != nil {
		return err
	}
	path := validated.Path()
	if !bytes.Equal(path.Project, f.Project) || !sameOrNull(path.ContentFingerprint, f.ContentFingerprint) ||
		!rules.IsPathID(f.PathID) || !bytes.HasPrefix(rules.RouteID(path.Passages), f.PathID) {
		return e.damaged("it validates what event %d does not say: path %.100q of project %.100q with the content %.100s", seq, f.PathID, f.Project, orNull(f.ContentFingerprint))
	}
	return nil
}

// sameOrNull reports whether two texts are equal, or both null.
func sameOrNull(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

// checkList checks what a content_redacted event says itself: which records before
// it are redacted. They are records, and name content.
func (w *walk) checkList(e *decoded) error {
	list := e.Redaction.Seqs
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
