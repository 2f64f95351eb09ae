package audit

import (
	"bytes"
	"strings"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// runMembers are the members of a run-DAG.
var runMembers = [...]member{
	{"answer_mode", nameText, sometimes}, {"audit_mode", nameText, sometimes}, {"cache_dimensions", object, sometimes}, {"content", object, always},
	{"digest", digestText, always}, {"failure_stage", nullable, always}, {"hashes", object, always}, {"idempotency_key", digestText, sometimes},
	{"labels", object, sometimes}, {"lookup_path", nameText, sometimes}, {"n_quotes", natural, sometimes}, {"n_sources", natural, sometimes},
	{"n_verified", natural, sometimes}, {"nodes", array, always}, {"preflight", text, always}, {"producer", object, sometimes},
	{"question_mode", text, sometimes}, {"run_id", identifier, sometimes}, {"shape", text, always}, {"timestamp", text, sometimes},
	{"verifier_method", nameText, sometimes},
}

// runHashes are the hashes of a run-DAG; all but the root are there where they are
// known, or belong to a cache key.
var runHashes = [...]member{
	{"cache_key", nullableDigest, sometimes}, {"context_root", digestText, sometimes}, {"conversation_hash", digestText, sometimes},
	{"evidence_map_root", digestText, sometimes}, {"governance_policy_hash", digestText, sometimes}, {"model_profile_hash", nullableDigest, sometimes},
	{"preflight_hash", digestText, sometimes}, {"question_hash", digestText, sometimes}, {"root", digestText, always}, {"source_root", nullableDigest, sometimes},
	{"verifier_policy_hash", digestText, sometimes},
}

// runContents are the pieces of content of a run-DAG.
var runContents = [...]member{
	{"answer_text", object, sometimes}, {"dag", object, sometimes}, {"evidence", object, sometimes}, {"inputs", object, sometimes},
	{"messages", object, sometimes}, {"policy", object, sometimes}, {"question", object, sometimes}, {"reject_inputs", object, sometimes},
	{"source_roots", object, sometimes}, {"verifier_policy", object, sometimes},
}

// stage is one node of a run-DAG. Its hash is 64 hexadecimal digits.
type stage struct{ name, hash []byte }

// run is a run-DAG at hand.
type run struct {
	*claims
	content, hashes, dimensions pyjson.Value
	stages                      []stage
	// given: the record brought the DAG; built: it brought what to make it of.
	given, built, rejected bool
}

// checkRunDAG checks a run-DAG (1.4).
func (w *walk) checkRunDAG(e *event) error {
	if err := e.members("its record", e.record, runMembers[:], nil); err != nil {
		return err
	}
	r := run{claims: &claims{e: e}, content: e.record.Member("content"), hashes: e.record.Member("hashes"), dimensions: e.record.Member("cache_dimensions")}
	err := e.members("its hashes", r.hashes, runHashes[:], nil)
	if err == nil {
		err = w.checkCommon(e, commonOf(e.record), runContents[:])
	}
	if err != nil {
		return err
	}
	r.given = has(r.content, "dag") == computed
	r.built = has(r.content, "inputs") == computed
	r.rejected = has(r.content, "reject_inputs") == computed
	for _, check := range [...]func() error{
		r.readStages, r.checkBrought, r.checkWords, r.checkRoot, r.checkStages, r.checkBases, r.checkDimensions, r.checkCacheKey, r.done,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

var nodeMembers = [...]member{{"hash", digestText, always}, {"stage", shortText, always}}

func (r *run) readStages() error {
	for v := range r.e.record.Member("nodes").Elements() {
		var m [len(nodeMembers)]pyjson.Value
		if err := r.e.members("a stage", v, nodeMembers[:], m[:]); err != nil {
			return err
		}
		r.stages = append(r.stages, stage{m[1].Text(), m[0].Text()})
	}
	if len(r.stages) == 0 || !r.given && !r.built && !r.rejected {
		return r.e.damaged("it is a run of %d stages, and names neither a DAG nor what makes one", len(r.stages))
	}
	return nil
}

// names are those of the stages.
func (r *run) names() []string {
	names := make([]string, len(r.stages))
	for i, s := range r.stages {
		names[i] = string(s.name)
	}
	return names
}

// find is the hash of the first stage of that name; nil if there is none.
func (r *run) find(name string) []byte {
	for _, s := range r.stages {
		if string(s.name) == name && name != "" { // a stage may be without a name
			return s.hash
		}
	}
	return nil
}

// runWords are what the event says of a run in words and numbers of its own.
var runWords = [...]string{"answer_mode", "audit_mode", "lookup_path", "n_quotes", "n_sources", "n_verified", "verifier_method"}

// checkBrought checks that the event says what a record can say that brings a DAG, or what
// to make it of: words only of a run that was made here, and a mode only of a question.
func (r *run) checkBrought() error {
	said := r.e.record
	if r.built && r.rejected {
		return r.e.damaged("it is a run of inputs and of reject_inputs")
	}
	for _, name := range runWords {
		number := strings.HasPrefix(name, "n_") || name == "answer_mode"
		if said.Member(name).Kind() != pyjson.Absent && !r.built && (number || !r.rejected) {
			return r.e.damaged("it has a %s, which its record cannot have brought", name)
		}
	}
	if n := said.Member("n_sources"); n.Kind() != pyjson.Absent {
		if _, ok := count(n); !ok {
			return r.e.damaged("its n_sources are %.100s", n.Raw())
		}
	}
	if r.rejected && string(said.Member("lookup_path").Text()) != rules.Preflight {
		return r.e.damaged("its lookup_path is %.100q; that of a run that preflight rejected is %q", said.Member("lookup_path").Text(), rules.Preflight)
	}
	mode, asked := said.Member("question_mode"), has(r.content, "question") == computed
	if asked != (mode.Kind() != pyjson.Absent) || asked && string(mode.Text()) != "strict" && string(mode.Text()) != "equivalence_class" {
		return r.e.damaged("its question_mode is %.100q; that of a question, and of nothing else, is strict or equivalence_class", mode.Text())
	}
	return nil
}

// checkWords checks what the event says of the run in words: they follow from its
// stages and numbers.
func (r *run) checkWords() error {
	said := r.e.record
	preflight := rules.PreflightOf(r.names())
	if got := said.Member("preflight").Text(); string(got) != preflight {
		return checkDamaged(r.e.seq, "preflight", "it is %.100q, the stages make it %q", got, preflight)
	}
	shape := rules.Shape(r.names())
	if got := said.Member("shape").Text(); string(got) != shape {
		return checkDamaged(r.e.seq, "shape", "it is %.100q, the stages make it %q", got, shape)
	}
	if r.rejected && shape != rules.ShapeReject || r.built && shape != rules.ShapeQuote && shape != rules.ShapePointer {
		return checkDamaged(r.e.seq, "shape", "it is %q, what the record brings makes no such run", shape)
	}
	var failed []byte
	if r.built {
		quotes, sources := said.Member("n_quotes"), said.Member("n_sources")
		if quotes.Kind() == pyjson.Absent || sources.Kind() == pyjson.Absent || said.Member("n_verified").Kind() == pyjson.Absent {
			return r.e.damaged("it is a run that was made of inputs, and lacks n_quotes, n_sources or n_verified")
		}
		failed = rules.FailureStage(said.Member("audit_mode").Text(), sources.Raw(), quotes.Raw())
	}
	if got := hash(said.Member("failure_stage")); !bytes.Equal(got, failed) {
		return checkDamaged(r.e.seq, "failure_stage", "it is %.100s, the event's other fields make it %s", orNull(got), orNull(failed))
	}
	return nil
}

// checkRoot checks the root over the stages. Who brings a DAG claims its root.
func (r *run) checkRoot() error {
	hashes := make([][]byte, len(r.stages))
	for i, s := range r.stages {
		hashes[i] = s.hash
	}
	result := record.Result(r.e.checks.Member("root").Member("result").Text())
	if r.given == (result == record.Computed) {
		return checkDamaged(r.e.seq, "root", "its result is %s; a claim of it comes with a DAG, and only with one", result)
	}
	root := rules.RunRoot(hashes)
	return r.check(field{name: "root", effective: hash(r.hashes.Member("root")), from: computed, recomputed: rules.AppendHex(nil, root)})
}

// checkStages checks the checks of stages, which are there where the record brought a
// DAG: of every stage, and of those that it claims and that were not built.
func (r *run) checkStages() error {
	if !r.given {
		return nil
	}
	names := rules.StageChecks(r.names())
	built := make(map[string]bool, len(names))
	for i, name := range names {
		built[name] = true
		if err := r.check(field{name: name, effective: r.stages[i].hash}); err != nil {
			return err
		}
	}
	for name := range r.e.checks.Members() {
		field := field{name: string(name.Text())}
		if !strings.HasPrefix(field.name, rules.StagePrefix) || built[field.name] {
			continue
		}
		if result := r.e.checks.Member(field.name).Member("result").Text(); string(result) != string(record.Mismatch) {
			return checkDamaged(r.e.seq, field.name, "its result is %.100s, but there is no such stage", result)
		}
		if err := r.check(field); err != nil {
			return err
		}
	}
	return nil
}

// checkBases checks the hashes that come from content or from the writer, and that the
// stages carry them.
func (r *run) checkBases() error {
	for _, b := range rules.BaseHashes {
		f := field{name: b.Name, effective: hash(r.hashes.Member(b.Name))}
		if b.Content != "" {
			f.from = has(r.content, b.Content)
		}
		carried := r.find(b.Stage)
		if carried != nil && !bytes.Equal(carried, f.effective) {
			return checkDamaged(r.e.seq, b.Name, "its hash is %.100s, that of its stage is %s", orNull(f.effective), carried)
		}
		if r.given && !r.built && !r.rejected {
			if carried != nil {
				continue // the check of the stage stands for it
			}
			if f.effective != nil && f.from == claimed && r.dimensions.Member(b.Name).Kind() == pyjson.Absent {
				return checkDamaged(r.e.seq, b.Name, "its hash is %.100s, but neither a stage nor a dimension of a cache key brings it", f.effective)
			}
		}
		if err := r.check(f); err != nil {
			return err
		}
	}
	if r.e.checks.Member("dag.preflight_payload").Kind() == pyjson.Absent {
		return nil
	}
	return r.check(field{name: "dag.preflight_payload", effective: hash(r.hashes.Member("preflight_hash")), from: computed})
}

var dimensionMembers = [...]member{
	{"canonicalization_version", nullable | formName, always}, {"chunking_version", nullable | formName, always}, {"conversation_hash", digestText, always},
	{"governance_policy_hash", digestText, always}, {"model_profile_hash", digestText, always}, {"question_hash", digestText, always},
	{"schema_version", nullable | formName, always}, {"source_root", digestText, always}, {"verifier_policy_hash", digestText, sometimes},
}

// checkDimensions checks the dimensions of the cache key. Those that are hashes of the
// record too are its own where these come from content.
func (r *run) checkDimensions() error {
	if r.dimensions.Kind() == pyjson.Absent {
		for _, name := range rules.ClaimedDimensions {
			if r.hashes.Member(name).Kind() != pyjson.Absent {
				return checkDamaged(r.e.seq, name, "it is there, but no dimensions of a cache key, which alone bring it")
			}
		}
		return nil
	}
	var m [len(dimensionMembers)]pyjson.Value
	if err := r.e.members("its cache_dimensions", r.dimensions, dimensionMembers[:], m[:]); err != nil {
		return err
	}
	for _, b := range rules.BaseHashes {
		dimension, effective := hash(r.dimensions.Member(b.Name)), hash(r.hashes.Member(b.Name))
		name := "cache_dimensions." + b.Name
		if b.Content == "" || dimension == nil {
			continue
		}
		fromContent := has(r.content, b.Content) == computed
		if fromContent && !bytes.Equal(dimension, effective) {
			return checkDamaged(r.e.seq, name, "it is %s, the record's own hash is %s", dimension, orNull(effective))
		}
		if r.e.checks.Member(name).Kind() == pyjson.Absent {
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
		effective := hash(r.hashes.Member(name))
		if dimension := hash(r.dimensions.Member(name)); !bytes.Equal(dimension, effective) {
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
	if check := r.e.checks.Member(name); string(check.Member("result").Text()) == string(record.Mismatch) {
		shown = check.Member("claimed").Text()
	}
	if !bytes.Equal(dimension, shown) {
		return checkDamaged(r.e.seq, name, "it is %s, its check is about %s", dimension, orNull(shown))
	}
	return r.check(f)
}

// checkCacheKey checks the cache key, which follows from the dimensions unless the
// event had to leave one of them out.
func (r *run) checkCacheKey() error {
	f := field{name: "cache_key", effective: hash(r.hashes.Member("cache_key")), from: claimed}
	if r.dimensions.Kind() == pyjson.Absent {
		return r.check(f)
	}
	f.from = computed
	var joined [][]byte
	for _, name := range rules.Dimensions {
		switch v := r.dimensions.Member(name); v.Kind() {
		case pyjson.String:
			joined = append(joined, v.Text())
		case pyjson.Null:
			return r.check(f)
		}
	}
	f.recomputed = rules.AppendHex(nil, rules.CacheKey(joined))
	return r.check(f)
}
