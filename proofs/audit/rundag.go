package audit

import (
	"bytes"
	"strings"

	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/ledger/record/rules"
)

// run is a run-DAG at hand.
type run struct {
	*claims
	*event.DAG
	stages []string // their names
	// given: the record brought the DAG; built: it brought what to make it of.
	given, built, rejected bool
}

// checkRunDAG checks a run-DAG (spec: Run-DAG).
func checkRunDAG(c *claims) error {
	e := c.e
	r := run{
		claims: c, DAG: &e.DAG, stages: e.DAG.StageNames(),
		given: e.HasContent("dag"), built: e.HasContent("inputs"), rejected: e.HasContent("reject_inputs"),
	}
	for _, check := range [...]func() error{
		r.checkBrought, r.checkWords, r.checkRoot, r.checkStages, r.checkBases, r.checkDimensions, r.checkCacheKey,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// find is the hash of the first stage of that name; nil if there is none.
func (r *run) find(name string) []byte {
	for _, s := range r.Stages {
		if string(s.Name) == name && name != "" { // a stage may be without a name
			return s.Hash
		}
	}
	return nil
}

// checkBrought checks that the event says what a record can say that brings a DAG, or what
// to make it of: words only of a run that was made here, and a mode only of a question.
func (r *run) checkBrought() error {
	if len(r.Stages) == 0 || !r.given && !r.built && !r.rejected {
		return r.e.damaged("it is a run of %d stages, and names neither a DAG nor what makes one", len(r.Stages))
	}
	if r.built && r.rejected {
		return r.e.damaged("it is a run of inputs and of reject_inputs")
	}
	for _, said := range [...]struct {
		name   string
		value  []byte
		reject bool // a rejected run has it too
	}{
		{"answer_mode", r.AnswerMode, false}, {"n_quotes", r.Quotes, false}, {"n_sources", r.Sources, false}, {"n_verified", r.Verified, false},
		{"audit_mode", r.AuditMode, true}, {"lookup_path", r.LookupPath, true}, {"verifier_method", r.VerifierMethod, true},
	} {
		if said.value != nil && !r.built && !(r.rejected && said.reject) {
			return r.e.damaged("it has a %s, which its record cannot have brought", said.name)
		}
	}
	if r.rejected && string(r.LookupPath) != rules.Preflight {
		return r.e.damaged("its lookup_path is %.100q; that of a run that preflight rejected is %q", r.LookupPath, rules.Preflight)
	}
	mode, asked := string(r.QuestionMode), r.e.HasContent("question")
	if asked != (r.QuestionMode != nil) || asked && mode != "strict" && mode != "equivalence_class" {
		return r.e.damaged("its question_mode is %.100q; that of a question, and of nothing else, is strict or equivalence_class", mode)
	}
	return nil
}

// checkWords checks what the event says of the run in words: they follow from its
// stages and numbers.
func (r *run) checkWords() error {
	if preflight := rules.PreflightOf(r.stages); string(r.Preflight) != preflight {
		return checkDamaged(r.e.seq, "preflight", "it is %.100q, the stages make it %q", r.Preflight, preflight)
	}
	shape := rules.Shape(r.stages)
	if string(r.Shape) != shape {
		return checkDamaged(r.e.seq, "shape", "it is %.100q, the stages make it %q", r.Shape, shape)
	}
	if r.rejected && shape != rules.ShapeReject || r.built && shape != rules.ShapeQuote && shape != rules.ShapePointer {
		return checkDamaged(r.e.seq, "shape", "it is %q, what the record brings makes no such run", shape)
	}
	var failed []byte
	if r.built {
		if r.Quotes == nil || r.Sources == nil || r.Verified == nil {
			return r.e.damaged("it is a run that was made of inputs, and lacks n_quotes, n_sources or n_verified")
		}
		failed = rules.FailureStage(r.AuditMode, r.Sources, r.Quotes)
	}
	if !bytes.Equal(r.FailureStage, failed) {
		return checkDamaged(r.e.seq, "failure_stage", "it is %.100s, the event's other fields make it %s", orNull(r.FailureStage), orNull(failed))
	}
	return nil
}

// checkRoot checks the root over the stages. Who brings a DAG claims its root.
func (r *run) checkRoot() error {
	if check := r.e.CheckOf("root"); check != nil && r.given == (check.Result == record.Computed) {
		return checkDamaged(r.e.seq, "root", "its result is %s; a claim of it comes with a DAG, and only with one", check.Result)
	}
	hashes := make([][]byte, len(r.Stages))
	for i, s := range r.Stages {
		hashes[i] = s.Hash
	}
	return r.check(field{name: "root", effective: r.Root, from: computed, recomputed: rules.AppendHex(nil, rules.RunRoot(hashes))})
}

// checkStages checks the checks of stages, which are there where the record brought a
// DAG: of every stage, and of those that it claims and that were not built.
func (r *run) checkStages() error {
	if !r.given {
		return nil
	}
	names := rules.StageChecks(r.stages)
	built := make(map[string]bool, len(names))
	for i, name := range names {
		built[name] = true
		if err := r.check(field{name: name, effective: r.Stages[i].Hash}); err != nil {
			return err
		}
	}
	for _, check := range r.e.Checks {
		if !strings.HasPrefix(check.Name, rules.StagePrefix) || built[check.Name] {
			continue
		}
		if check.Result != record.Mismatch {
			return checkDamaged(r.e.seq, check.Name, "its result is %.100s, but there is no such stage", check.Result)
		}
		if err := r.check(field{name: check.Name}); err != nil {
			return err
		}
	}
	return nil
}

// checkBases checks the hashes that come from content or from the writer, and that the
// stages carry them. Whether there is a preflight payload an event does not tell.
func (r *run) checkBases() error {
	for _, b := range rules.BaseHashes {
		f := field{name: b.Name, effective: *r.Hash(b.Name)}
		if b.Content != "" {
			f.from = r.e.from(b.Content)
		}
		carried := r.find(b.Stage)
		if carried != nil && !bytes.Equal(carried, f.effective) {
			return checkDamaged(r.e.seq, b.Name, "its hash is %.100s, that of its stage is %s", orNull(f.effective), carried)
		}
		if r.given && !r.built && !r.rejected {
			if carried != nil {
				continue // the check of the stage stands for it
			}
			if _, given := r.Dimension(b.Name); f.effective != nil && f.from == claimed && !given {
				return checkDamaged(r.e.seq, b.Name, "its hash is %.100s, but neither a stage nor a dimension of a cache key brings it", f.effective)
			}
		}
		if err := r.check(f); err != nil {
			return err
		}
	}
	const beside = "dag.preflight_payload"
	if r.e.CheckOf(beside) == nil {
		return nil
	}
	return r.check(field{name: beside, effective: r.PreflightHash, from: computed})
}

// checkDimensions checks the dimensions of the cache key. Those that are hashes of the
// record too are its own where these come from content.
func (r *run) checkDimensions() error {
	if len(r.Dimensions) == 0 {
		for _, name := range rules.ClaimedDimensions {
			if *r.Hash(name) != nil {
				return checkDamaged(r.e.seq, name, "it is there, but no dimensions of a cache key, which alone bring it")
			}
		}
		return nil
	}
	for _, b := range rules.BaseHashes {
		dimension, given := r.Dimension(b.Name)
		effective := *r.Hash(b.Name)
		name := "cache_dimensions." + b.Name
		if b.Content == "" || !given {
			continue
		}
		fromContent := r.e.from(b.Content) == computed
		if fromContent && !bytes.Equal(dimension, effective) {
			return checkDamaged(r.e.seq, name, "it is %s, the record's own hash is %s", dimension, orNull(effective))
		}
		if r.e.CheckOf(name) == nil {
			if !bytes.Equal(dimension, effective) {
				return checkDamaged(r.e.seq, name, "it is %s, the record's own hash is %s, but there is no check of it", dimension, orNull(effective))
			}
			continue
		}
		if err := r.checkDimension(name, dimension, effective, fromContent); err != nil {
			return err
		}
	}
	for _, name := range rules.ClaimedDimensions {
		effective := *r.Hash(name)
		if dimension, _ := r.Dimension(name); !bytes.Equal(dimension, effective) {
			return checkDamaged(r.e.seq, name, "its hash is %.100s, the dimension is %s", orNull(effective), dimension)
		}
		if err := r.check(field{name: name, effective: effective, from: claimed}); err != nil {
			return err
		}
	}
	return nil
}

// checkDimension checks a dimension that repeats a hash of the record.
func (r *run) checkDimension(name string, dimension, effective []byte, fromContent bool) error {
	f := field{name: name, effective: effective}
	if fromContent {
		f.from = computed
		return r.check(f)
	}
	shown := effective // by its result
	if check := r.e.CheckOf(name); check.Result == record.Mismatch {
		shown = check.Claimed
	}
	if !bytes.Equal(dimension, shown) {
		return checkDamaged(r.e.seq, name, "it is %s, its check is about %s", dimension, orNull(shown))
	}
	return r.check(f)
}

// checkCacheKey checks the cache key, which follows from the dimensions unless the
// event had to leave one of them out.
func (r *run) checkCacheKey() error {
	f := field{name: "cache_key", effective: r.CacheKey, from: claimed}
	if len(r.Dimensions) == 0 {
		return r.check(f)
	}
	f.from = computed
	var joined [][]byte
	for _, name := range rules.Dimensions {
		switch value, given := r.Dimension(name); {
		case value != nil:
			joined = append(joined, value)
		case given:
			return r.check(f)
		}
	}
	f.recomputed = rules.AppendHex(nil, rules.CacheKey(joined))
	return r.check(f)
}
