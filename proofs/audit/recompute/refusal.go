package recompute

import (
	"slices"
	"strconv"
	"strings"

	"colophon/ledger/record"
	"colophon/ledger/record/rules"
)

// minTruncatedSize is the minimum length, in bytes, of the failed checks in a refusal that does not list
// all of them.
const minTruncatedSize = 16 << 10

// checkRefusal checks the event of a refusal (spec: Refusals; Idempotency).
func (c *Checker) checkRefusal() error {
	r := &c.Refusal
	if !r.Kind.IsKnown() || r.Kind == record.KindRecordRefused || r.Kind == record.KindLedgerCreated {
		return malformed("the event refuses a record of kind %.100q, which is not a kind that can be refused", r.Kind)
	}
	byKey := r.Reason == record.RefusalKeyConflict
	if byKey && c.Common.IdempotencyKeyDigest == nil {
		return malformed("the event refuses a record because of an idempotency key, but does not name the key")
	}
	if !r.Kind.IsRecord() && (!byKey || len(c.Checks) > 0 || c.Common.RunID != nil) {
		return malformed("the event refuses a record of kind %s with claims or a run_id, but records of this kind have neither", r.Kind)
	}
	listed, failed := uint64(len(c.Checks)), r.MismatchCount
	if listed > failed || listed < failed && len(c.Event.Checks.Raw()) < minTruncatedSize || failed == 0 && !byKey {
		return malformed("the event counts %d failed checks, but lists %d", failed, listed)
	}
	for i := range c.Checks {
		check := &c.Checks[i]
		if check.Result != record.ResultMismatch {
			return wrongField(check.Name, "the result is %.100s, but the event must list only failed checks", check.Result)
		}
		if r.Kind == record.KindRunDAG && strings.HasPrefix(check.Name, evidencePrefix) {
			c.seen++
			if err := checkEvidenceClaim(check); err != nil {
				return err
			}
			continue
		}
		f := field{name: check.Name, effective: check.Computed}
		var known bool
		if f.form, known = refusedForm(r.Kind, f.name); !known {
			return malformed("the event refuses a record of kind %s because of a mismatch in %.100q, which records of this kind do not have", r.Kind, f.name)
		}
		if f.effective == nil && !strings.HasPrefix(f.name, rules.StageCheckPrefix) || f.effective != nil && !f.isHash(f.effective) {
			return wrongField(f.name, "the computed value is %.100s, which is not a valid value for this hash", orNull(f.effective))
		}
		if err := c.field(&f); err != nil {
			return err
		}
	}
	return nil
}

var ipcHashes = [...]string{"input_hash", "system_prompt_hash", "output_hash", "ipc_id", "ipc_id_advanced"}

// refusedForm returns the value of field.form for a hash whose check failed in a refused record.
// known is false if records of the given kind have no hash with that name.
func refusedForm(kind record.Kind, name string) (form func([]byte) bool, known bool) {
	switch kind {
	case record.KindIPCRecord:
		return nil, slices.Contains(ipcHashes[:], name)
	case record.KindRunDAG:
		dimension := strings.TrimPrefix(name, "cache_dimensions.")
		base := slices.ContainsFunc(rules.BaseHashes[:], func(b struct{ Name, Content, Stage string }) bool { return b.Name == dimension })
		return nil, base || strings.HasPrefix(name, rules.StageCheckPrefix) || name == "root" || name == "cache_key" || name == rules.PreflightCheckName
	case record.KindCitationSet:
		number, found := strings.CutSuffix(strings.TrimPrefix(name, "citations/"), "/chunk_hash")
		n, err := strconv.Atoi(number)
		return rules.IsChunkHash, found && err == nil && n >= 0 && name == "citations/"+strconv.Itoa(n)+"/chunk_hash"
	case record.KindPathFingerprint:
		if name == "path_id" {
			return rules.IsPathID, true
		}
		return hexForm(rules.FingerprintDigits), name == "content_fingerprint" || name == "raw_content_fingerprint"
	}
	return nil, false
}
