package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
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

// baseHashes are the hashes that stages and the cache key are made of: the content
// that each is recomputed from, and the stage that carries it. Whether there is a
// preflight payload an event does not tell.
var baseHashes = [...]struct{ name, content, stage string }{
	{"question_hash", "question", "question"},
	{"preflight_hash", "", preflightStage},
	{"context_root", "source_roots", "context"},
	{"evidence_map_root", "evidence", "evidence_map"},
	{"conversation_hash", "messages", "prompt"},
	{"governance_policy_hash", "policy", ""},
	{"verifier_policy_hash", "verifier_policy", ""},
}

const preflightStage = "preflight"

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
	if r.rejected && string(said.Member("lookup_path").Text()) != preflightStage {
		return r.e.damaged("its lookup_path is %.100q; that of a run that preflight rejected is %q", said.Member("lookup_path").Text(), preflightStage)
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
	preflight := "unavailable_legacy_run"
	if r.find(preflightStage) != nil {
		preflight = "available"
	}
	if got := said.Member("preflight").Text(); string(got) != preflight {
		return checkDamaged(r.e.seq, "preflight", "it is %.100q, the stages make it %q", got, preflight)
	}
	shape := r.shape()
	if got := said.Member("shape").Text(); string(got) != shape {
		return checkDamaged(r.e.seq, "shape", "it is %.100q, the stages make it %q", got, shape)
	}
	if r.rejected && shape != "reject" || r.built && shape != "quote" && shape != "pointer" {
		return checkDamaged(r.e.seq, "shape", "it is %q, what the record brings makes no such run", shape)
	}
	var failed []byte
	if r.built {
		quotes, sources := said.Member("n_quotes"), said.Member("n_sources")
		if quotes.Kind() == pyjson.Absent || sources.Kind() == pyjson.Absent || said.Member("n_verified").Kind() == pyjson.Absent {
			return r.e.damaged("it is a run that was made of inputs, and lacks n_quotes, n_sources or n_verified")
		}
		failed = failureStage(said.Member("audit_mode").Text(), sources.Raw(), quotes.Raw())
	}
	if got := hash(said.Member("failure_stage")); !bytes.Equal(got, failed) {
		return checkDamaged(r.e.seq, "failure_stage", "it is %.100s, the event's other fields make it %s", orNull(got), orNull(failed))
	}
	return nil
}

// Stages of the known shapes, without preflight (1.4).
const (
	quoteStages   = "question retrieval context prompt answer verify final_label"
	pointerStages = "question retrieval evidence_map prompt raw_answer parsed_claim_lattice verify render final_label"
	rejectStages  = "question preflight final_label"
)

// shape names the shape of the stages.
func (r *run) shape() string {
	names := make([]string, len(r.stages))
	for i, s := range r.stages {
		if bytes.IndexByte(s.name, ' ') >= 0 {
			return "unrecognised"
		}
		names[i] = string(s.name)
	}
	joined := strings.Join(names, " ")
	if joined == rejectStages {
		return "reject"
	}
	if len(names) > 1 && names[1] == preflightStage {
		joined = strings.Join(slices.Delete(names, 1, 2), " ")
	}
	switch joined {
	case quoteStages:
		return "quote"
	case pointerStages:
		return "pointer"
	}
	return "unrecognised"
}

// failureStage says where a run failed (1.4); nil means it did not.
func failureStage(auditMode, sources, quotes []byte) []byte {
	switch {
	case string(auditMode) == "STRICT":
		return nil
	case string(sources) == "0":
		return []byte("retrieval")
	case string(quotes) == "0":
		return []byte("context")
	}
	return []byte("answer")
}

// checkRoot checks the root over the stages. Who brings a DAG claims its root.
func (r *run) checkRoot() error {
	level := make([][sha256.Size]byte, len(r.stages))
	for i, s := range r.stages {
		leaf := [1 + sha256.Size]byte{}
		if _, err := hex.Decode(leaf[1:], s.hash); err != nil {
			return r.e.damaged("its stage %.100q: %v", s.name, err)
		}
		level[i] = sha256.Sum256(leaf[:])
	}
	for len(level) > 1 {
		for i := 0; i < len(level); i += 2 {
			pair := [1 + 2*sha256.Size]byte{0x03}
			copy(pair[1:], level[i][:])
			copy(pair[1+sha256.Size:], level[min(i+1, len(level)-1)][:])
			level[i/2] = sha256.Sum256(pair[:])
		}
		level = level[:(len(level)+1)/2]
	}
	result := record.Result(r.e.checks.Member("root").Member("result").Text())
	if r.given == (result == record.Computed) {
		return checkDamaged(r.e.seq, "root", "its result is %s; a claim of it comes with a DAG, and only with one", result)
	}
	return r.check(field{name: "root", effective: hash(r.hashes.Member("root")), from: computed, recomputed: hex.AppendEncode(nil, level[0][:])})
}

// stagePrefix begins the name of the check of one stage.
const stagePrefix = "stage:"

// checkStages checks the checks of stages, which are there where the record brought a
// DAG: of every stage, and of those that it claims and that were not built.
func (r *run) checkStages() error {
	if !r.given {
		return nil
	}
	names := stageNames(r.stages)
	built := make(map[string]bool, len(names))
	for i, name := range names {
		built[name] = true
		if err := r.check(field{name: name, effective: r.stages[i].hash}); err != nil {
			return err
		}
	}
	for name := range r.e.checks.Members() {
		field := field{name: string(name.Text())}
		if !strings.HasPrefix(field.name, stagePrefix) || built[field.name] {
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

// stageNames are the names of the checks of stages, no two alike: a stage that stands
// several times is told apart by the first of "#2", "#3", … that no other has in its
// name.
func stageNames(stages []stage) []string {
	names := make([]string, len(stages))
	taken, number := make(map[string]bool), make(map[string]int)
	for _, s := range stages {
		taken[string(s.name)] = true
	}
	for i, s := range stages {
		name := string(s.name)
		if next, again := number[name]; again {
			for again {
				names[i] = name + "#" + strconv.Itoa(next)
				again = taken[names[i]]
				next++
			}
			taken[names[i]] = true
			number[name] = next
		} else {
			names[i], number[name] = name, 2
		}
		names[i] = stagePrefix + names[i]
	}
	return names
}

// checkBases checks the hashes that come from content or from the writer, and that the
// stages carry them.
func (r *run) checkBases() error {
	for _, b := range baseHashes {
		f := field{name: b.name, effective: hash(r.hashes.Member(b.name))}
		if b.content != "" {
			f.from = has(r.content, b.content)
		}
		carried := r.find(b.stage)
		if carried != nil && !bytes.Equal(carried, f.effective) {
			return checkDamaged(r.e.seq, b.name, "its hash is %.100s, that of its stage is %s", orNull(f.effective), carried)
		}
		if r.given && !r.built && !r.rejected {
			if carried != nil {
				continue // the check of the stage stands for it
			}
			if f.effective != nil && f.from == claimed && r.dimensions.Member(b.name).Kind() == pyjson.Absent {
				return checkDamaged(r.e.seq, b.name, "its hash is %.100s, but neither a stage nor a dimension of a cache key brings it", f.effective)
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

// dimensionOrder are the dimensions of the cache key in the order in which they are
// joined (1.4); the last is optional.
var dimensionOrder = [...]string{
	"source_root", "question_hash", "model_profile_hash", "conversation_hash", "governance_policy_hash",
	"schema_version", "canonicalization_version", "chunking_version", "verifier_policy_hash",
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
		for _, name := range [...]string{"source_root", "model_profile_hash"} {
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
	for _, b := range baseHashes {
		dimension, effective := hash(r.dimensions.Member(b.name)), hash(r.hashes.Member(b.name))
		name := "cache_dimensions." + b.name
		if b.content == "" || dimension == nil {
			continue
		}
		fromContent := has(r.content, b.content) == computed
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
	for _, name := range [...]string{"source_root", "model_profile_hash"} {
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
	for _, name := range dimensionOrder {
		switch v := r.dimensions.Member(name); v.Kind() {
		case pyjson.String:
			joined = append(joined, v.Text())
		case pyjson.Null:
			return r.check(f)
		}
	}
	sum := sha256.Sum256(bytes.Join(joined, []byte("|")))
	f.recomputed = hex.AppendEncode(nil, sum[:])
	return r.check(f)
}
