package rules

import (
	"bytes"
	"slices"

	"colophon/ledger/record/pyjson"
)

// VerdictCheckPrefix is the prefix of the names of verdict checks. It is followed by the name of a rule.
const VerdictCheckPrefix = "verdict:"

// These are the names of the rules that every valid verdict obeys (spec: Verdicts). The comments say
// which verdicts break them.
const (
	VerdictStrictWithoutSources   = "strict_without_sources"         // STRICT without sources
	VerdictStrictWithoutVerified  = "strict_without_verified_quotes" // STRICT with quotes, none of which is verified
	VerdictMoreVerifiedThanQuotes = "more_verified_than_quotes"      // more verified quotes than quotes
	VerdictStrictRejected         = "strict_rejected"                // STRICT although preflight rejected the run
	VerdictLatticeWithoutEvidence = "lattice_without_evidence"       // the lattice cites an unknown evidence ID
)

// VerdictRules contains the names of all verdict rules.
var VerdictRules = [...]string{VerdictStrictWithoutSources, VerdictStrictWithoutVerified, VerdictMoreVerifiedThanQuotes, VerdictStrictRejected, VerdictLatticeWithoutEvidence}

// BrokenVerdictRules returns the rules that the verdict of an answered run breaks. It does not
// check VerdictLatticeWithoutEvidence. sources, quotes, and verified are decimal numbers.
func BrokenVerdictRules(auditMode, sources, quotes, verified []byte) (broken []string) {
	if isStrict(auditMode) && string(sources) == "0" {
		broken = append(broken, VerdictStrictWithoutSources)
	}
	if isStrict(auditMode) && string(quotes) != "0" && string(verified) == "0" {
		broken = append(broken, VerdictStrictWithoutVerified)
	}
	if len(verified) > len(quotes) || len(verified) == len(quotes) && bytes.Compare(verified, quotes) > 0 {
		broken = append(broken, VerdictMoreVerifiedThanQuotes)
	}
	return broken
}

// BrokenRejectionRules returns the rules that the verdict of a rejected run breaks.
func BrokenRejectionRules(auditMode []byte) []string {
	if isStrict(auditMode) {
		return []string{VerdictStrictRejected}
	}
	return nil
}

func isStrict(auditMode []byte) bool { return string(auditMode) == "STRICT" }

// CitedEvidenceIDs returns the distinct evidence IDs that a lattice cites, sorted. These are the
// strings in all lists named evidence_ids, at any depth.
func CitedEvidenceIDs(lattice pyjson.Value) [][]byte {
	ids := appendCited(nil, lattice)
	slices.SortFunc(ids, bytes.Compare)
	return slices.CompactFunc(ids, bytes.Equal)
}

func appendCited(ids [][]byte, v pyjson.Value) [][]byte {
	for e := range v.Elements() {
		ids = appendCited(ids, e)
	}
	for name, value := range v.Members() {
		if string(name.Text()) != "evidence_ids" {
			ids = appendCited(ids, value)
			continue
		}
		for id := range value.Elements() {
			if id.Kind() == pyjson.String {
				ids = append(ids, id.Text())
			}
		}
	}
	return ids
}
