package recompute

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/ledger/record/rules"
)

// runCheck checks one run-DAG.
type runCheck struct {
	*Checker
	*event.DAG
	stages []string
	// given means that the record contained a DAG. built and rejected mean that the ledger made the
	// DAG from the record's inputs or its reject_inputs.
	given, built, rejected bool
}

// checkRunDAG checks a run-DAG (spec: Run-DAG).
func (c *Checker) checkRunDAG() error {
	r := runCheck{
		Checker: c, DAG: &c.Body.DAG, stages: c.Body.DAG.StageNames(),
		given: c.HasContent("dag"), built: c.HasContent("inputs"), rejected: c.HasContent("reject_inputs"),
	}
	for _, check := range [...]func() error{
		r.checkMembers, r.checkDerivedFields, r.checkRoot, r.checkStageHashes, r.checkAnswer, r.checkEvidence, r.checkVerdict, r.checkBaseHashes, r.checkDimensions, r.checkCacheKey,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// stageHash returns the hash of the first stage with the given name, or nil if there is none.
func (r *runCheck) stageHash(name string) []byte {
	for _, s := range r.Stages {
		if string(s.Name) == name && name != "" { // stages without a name never match
			return s.Hash
		}
	}
	return nil
}

// checkMembers checks that the event has only members that a run of its type can have. Only a run
// that the ledger made from inputs has members such as answer_mode, and only a run with a question
// has a question_mode.
func (r *runCheck) checkMembers() error {
	if len(r.Stages) == 0 || !r.given && !r.built && !r.rejected {
		return malformed("the event's run has %d stages, but a run must have at least one stage, and the event must name a DAG or inputs", len(r.Stages))
	}
	if r.built && r.rejected {
		return malformed(`the event has both "inputs" and "reject_inputs"`)
	}
	for _, m := range [...]struct {
		name     string
		value    []byte
		rejected bool // whether a rejected run can also have the member
	}{
		{"answer_mode", r.AnswerMode, false}, {"n_quotes", r.QuoteCount, false}, {"n_sources", r.SourceCount, false}, {"n_verified", r.VerifiedQuoteCount, false},
		{"audit_mode", r.AuditMode, true}, {"lookup_path", r.LookupPath, true}, {"verifier_method", r.VerifierMethod, true},
	} {
		if m.value != nil && !r.built && !(r.rejected && m.rejected) {
			return malformed("the event has the member %q, which only a run with inputs can have", m.name)
		}
	}
	if r.DocumentRoots != nil && !r.built && !r.HasContent("source_roots") || r.EvidenceIDs != nil && !r.built && !r.HasContent("evidence") {
		return malformed(`the event has "document_roots" or "evidence_ids", but not the content that they are computed from`)
	}
	if r.PreflightGeneration != nil && (r.PreflightHash == nil || string(r.PreflightGeneration) == rules.PreflightVersion) {
		return malformed("the event's preflight_generation is %.100q, but this member is allowed only for a preflight payload that is not of the current generation", r.PreflightGeneration)
	}
	if r.rejected && string(r.LookupPath) != rules.PreflightStage {
		return malformed("the event's lookup_path is %.100q, but must be %q for a run that preflight rejected", r.LookupPath, rules.PreflightStage)
	}
	mode, hasQuestion := string(r.QuestionMode), r.HasContent("question")
	if hasQuestion != (r.QuestionMode != nil) || hasQuestion && mode != rules.QuestionModeStrict && mode != rules.QuestionModeEquivalence {
		return malformed("the event's question_mode is %.100q, but must be strict or equivalence_class if the run has a question, and absent otherwise", mode)
	}
	return nil
}

// checkDerivedFields checks preflight, shape, and failure_stage, which follow from the run's stages
// and other fields.
func (r *runCheck) checkDerivedFields() error {
	if preflight := rules.PreflightStatus(r.stages); string(r.PreflightStatus) != preflight {
		return wrongField("preflight", "the event has %.100q, but the stages give %q", r.PreflightStatus, preflight)
	}
	shape := rules.RunShape(r.stages)
	if string(r.Shape) != shape {
		return wrongField("shape", "the event has %.100q, but the stages give %q", r.Shape, shape)
	}
	if r.rejected && shape != rules.ShapeReject || r.built && shape != rules.ShapeQuote && shape != rules.ShapePointer {
		return wrongField("shape", "the event has %q, but the ledger does not make runs of this shape from the record's content", shape)
	}
	var failed []byte
	if r.built {
		if r.QuoteCount == nil || r.SourceCount == nil || r.VerifiedQuoteCount == nil {
			return malformed(`the event is a run with inputs, but lacks "n_quotes", "n_sources", or "n_verified"`)
		}
		failed = rules.FailureStage(r.AuditMode, r.SourceCount, r.QuoteCount)
	}
	if !bytes.Equal(r.FailureStage, failed) {
		return wrongField("failure_stage", "the event has %.100s, but its other fields give %s", orNull(r.FailureStage), orNull(failed))
	}
	return nil
}

// checkRoot checks the root, which is computed from the hashes of the stages. If the record has a
// DAG, its writer has claimed the root.
func (r *runCheck) checkRoot() error {
	if check := r.CheckByName("root"); check != nil && r.given == (check.Result == record.ResultComputed) {
		return wrongField("root", "the result is %s, but the root is claimed if and only if the record has a DAG", check.Result)
	}
	hashes := make([][]byte, len(r.Stages))
	for i, s := range r.Stages {
		hashes[i] = s.Hash
	}
	return r.all(field{name: "root", effective: r.Root, origin: computed, recomputed: rules.AppendHex(nil, rules.RunRoot(hashes))})
}

// checkStageHashes verifies the checks of stages. If the record has a DAG, every stage has a check.
// So does every stage that the writer claimed but the ledger did not build.
func (r *runCheck) checkStageHashes() error {
	if !r.given {
		return nil
	}
	names := rules.StageCheckNames(r.stages)
	built := make(map[string]bool, len(names))
	answer := ""
	if r.HasContent("answer_text") && r.adopted() {
		answer = rules.StageCheckPrefix + rules.AnswerStage(r.stages)
	}
	for i, name := range names {
		built[name] = true
		f := field{name: name, effective: r.Stages[i].Hash}
		if name == answer && r.stages[i] != "" {
			f.origin = computed
		}
		if err := r.all(f); err != nil {
			return err
		}
	}
	for _, check := range r.Checks {
		if !strings.HasPrefix(check.Name, rules.StageCheckPrefix) || built[check.Name] {
			continue
		}
		if check.Result != record.ResultMismatch {
			return wrongField(check.Name, "the result is %.100s, but the run has no such stage", check.Result)
		}
		if err := r.all(field{name: check.Name}); err != nil {
			return err
		}
	}
	return nil
}

// adopted reports whether the ledger took the stages from the record's DAG, because the record had
// no inputs to make them from.
func (r *runCheck) adopted() bool { return r.given && !r.built && !r.rejected }

// checkAnswer verifies the check that reports an answer that no stage covers. If the run has
// inputs, the event does not show whether a stage covers the answer.
func (r *runCheck) checkAnswer() error {
	check := r.CheckByName(rules.AnswerCheckName)
	uncovered := r.adopted() && r.HasContent("answer_text") && rules.AnswerStage(r.stages) == ""
	if check == nil {
		if uncovered {
			return wrongField(rules.AnswerCheckName, "no stage covers the answer, but no check says so")
		}
		return nil
	}
	r.seen++
	if check.Result != record.ResultClaimed || check.Claimed != nil || check.Computed != nil {
		return wrongField(rules.AnswerCheckName, "the result is %.100s, but must be \"claimed\"", check.Result)
	}
	if !uncovered && !(r.built && string(r.Shape) == rules.ShapePointer) {
		return wrongField(rules.AnswerCheckName, "the result is \"claimed\", but a stage covers the answer, or the run has no answer")
	}
	return nil
}

// checkEvidence verifies the checks of claims about evidence. It cannot tell whether checks are
// missing, because the event does not show which values were claimed.
func (r *runCheck) checkEvidence() error {
	for i := range r.Checks {
		check := &r.Checks[i]
		if !strings.HasPrefix(check.Name, evidencePrefix) {
			continue
		}
		r.seen++
		if !r.HasContent("evidence") {
			return wrongField(check.Name, "the event has this check, but the record has no evidence")
		}
		if err := checkEvidenceClaim(check); err != nil {
			return err
		}
	}
	return nil
}

// evidencePrefix begins the name of every check of evidence, such as evidence/0/text_hash.
const evidencePrefix = "evidence/"

// checkEvidenceClaim verifies the check of one claim about evidence.
func checkEvidenceClaim(check *record.NamedCheck) error {
	number, member, _ := strings.Cut(strings.TrimPrefix(check.Name, evidencePrefix), "/")
	if n, err := strconv.Atoi(number); err != nil || n < 0 || strconv.Itoa(n) != number {
		return wrongField(check.Name, "the check's name does not contain a valid evidence index")
	}
	f := field{name: check.Name, form: rules.IsDigest}
	switch {
	case member == "evidence_id":
		f.form = func(text []byte) bool { return len(text) <= maxEvidenceID }
		if check.Result == record.ResultClaimed {
			return wrongField(check.Name, "the result is \"claimed\", although there is data to compute the ID from")
		}
	case member != "text_hash":
		return wrongField(check.Name, "evidence has no hash with this name")
	}
	switch check.Result {
	case record.ResultMismatch:
		if check.Claimed == nil || check.Computed == nil || bytes.Equal(check.Claimed, check.Computed) || !f.isHash(check.Claimed) || !f.isHash(check.Computed) {
			return wrongField(check.Name, `the result is "mismatch", but "claimed" is %.100s and "computed" is %.100s`, orNull(check.Claimed), orNull(check.Computed))
		}
	case record.ResultMatch, record.ResultClaimed:
		if check.Claimed != nil || check.Computed != nil {
			return wrongField(check.Name, "the result is %s, but the check shows a claimed or computed value", check.Result)
		}
	default:
		return wrongField(check.Name, "the result %.100q is not valid for this check", check.Result)
	}
	return nil
}

// maxEvidenceID is the maximum length of a claimed evidence_id, in bytes.
const maxEvidenceID = 128

// checkVerdict checks that the event names exactly the rules that its verdict breaks. It cannot
// verify the rule about the claim lattice, because the event does not contain the lattice.
func (r *runCheck) checkVerdict() error {
	var broken []string
	switch {
	case r.built:
		broken = rules.BrokenVerdictRules(r.AuditMode, r.SourceCount, r.QuoteCount, r.VerifiedQuoteCount)
	case r.rejected:
		broken = rules.BrokenRejectionRules(r.AuditMode)
	}
	for _, rule := range broken {
		if r.CheckByName(rules.VerdictCheckPrefix+rule) == nil {
			return wrongField(rules.VerdictCheckPrefix+rule, "the verdict breaks this rule, but no check says so")
		}
	}
	for i := range r.Checks {
		check := &r.Checks[i]
		rule, is := strings.CutPrefix(check.Name, rules.VerdictCheckPrefix)
		if !is {
			continue
		}
		r.seen++
		lattice := rule == rules.VerdictLatticeWithoutEvidence && r.built && r.HasContent("evidence")
		if !lattice && !slices.Contains(broken, rule) {
			return wrongField(check.Name, "the event has this check, but the verdict does not break the rule")
		}
		if check.Result != record.ResultInconsistent || check.Claimed != nil || check.Computed != nil {
			return wrongField(check.Name, "the result is %.100q, but must be \"inconsistent\"", check.Result)
		}
	}
	return nil
}

// checkBaseHashes checks the hashes that were computed from content or claimed by the writer. The
// corresponding stages must have the same hashes. A missing check of the preflight hash is
// accepted, because the event does not show whether the record had a preflight payload.
func (r *runCheck) checkBaseHashes() error {
	for _, b := range rules.BaseHashes {
		f := field{name: b.Name, effective: *r.HashField(b.Name)}
		if b.Content != "" {
			f.origin = r.originOf(b.Content)
		}
		ofStage := r.stageHash(b.Stage)
		if ofStage != nil && !bytes.Equal(ofStage, f.effective) {
			return wrongField(b.Name, "the hash is %.100s, but the stage's hash is %s", orNull(f.effective), ofStage)
		}
		if r.adopted() {
			if ofStage != nil {
				continue // checkStageHashes has verified the stage's check
			}
			if _, given := r.CacheDimension(b.Name); f.effective != nil && f.origin == claimed && !given {
				return wrongField(b.Name, "the hash is %.100s, but neither a stage nor a dimension of the cache key has this hash", f.effective)
			}
		}
		if err := r.all(f); err != nil {
			return err
		}
	}
	if r.CheckByName(rules.PreflightCheckName) == nil {
		return nil
	}
	return r.all(field{name: rules.PreflightCheckName, effective: r.PreflightHash, origin: computed})
}

// checkDimensions checks the dimensions of the cache key. A dimension that repeats one of the
// record's hashes must equal that hash if it was computed from content.
func (r *runCheck) checkDimensions() error {
	if len(r.CacheDimensions) == 0 {
		for _, name := range rules.ClaimOnlyDimensions {
			if *r.HashField(name) != nil {
				return wrongField(name, "the event has this hash, but not the cache key's dimensions, from which the hash must come")
			}
		}
		return nil
	}
	for _, b := range rules.BaseHashes {
		dimension, given := r.CacheDimension(b.Name)
		effective := *r.HashField(b.Name)
		name := "cache_dimensions." + b.Name
		if b.Content == "" || !given {
			continue
		}
		fromContent := r.originOf(b.Content) == computed
		if fromContent && !bytes.Equal(dimension, effective) {
			return wrongField(name, "the dimension is %s, but the record's own hash is %s", dimension, orNull(effective))
		}
		if r.CheckByName(name) == nil {
			if !bytes.Equal(dimension, effective) {
				return wrongField(name, "the dimension is %s, the record's own hash is %s, and the event has no check for the difference", dimension, orNull(effective))
			}
			continue
		}
		if err := r.checkDimension(name, dimension, effective, fromContent); err != nil {
			return err
		}
	}
	for _, name := range rules.ClaimOnlyDimensions {
		effective := *r.HashField(name)
		if dimension, _ := r.CacheDimension(name); !bytes.Equal(dimension, effective) {
			return wrongField(name, "the hash is %.100s, but the dimension is %s", orNull(effective), dimension)
		}
		if err := r.all(field{name: name, effective: effective, origin: claimed}); err != nil {
			return err
		}
	}
	return nil
}

// checkDimension verifies the check of a dimension that repeats one of the record's hashes.
func (r *runCheck) checkDimension(name string, dimension, effective []byte, fromContent bool) error {
	f := field{name: name, effective: effective}
	if fromContent {
		f.origin = computed
		return r.all(f)
	}
	shown := effective // the hash that the dimension must equal
	if check := r.CheckByName(name); check.Result == record.ResultMismatch {
		shown = check.Claimed
	}
	if !bytes.Equal(dimension, shown) {
		return wrongField(name, "the dimension is %s, but the check is for %s", dimension, orNull(shown))
	}
	return r.all(f)
}

// checkCacheKey checks the cache key. It follows from the dimensions unless the event leaves out
// one of them.
func (r *runCheck) checkCacheKey() error {
	f := field{name: "cache_key", effective: r.CacheKey, origin: claimed}
	if len(r.CacheDimensions) == 0 {
		return r.all(f)
	}
	f.origin = computed
	var joined [][]byte
	for _, name := range rules.CacheDimensions {
		switch value, given := r.CacheDimension(name); {
		case value != nil:
			joined = append(joined, value)
		case given:
			return r.all(f)
		}
	}
	f.recomputed = rules.AppendHex(nil, rules.CacheKey(joined))
	return r.all(f)
}
