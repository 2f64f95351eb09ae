package rules

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strconv"

	"colophon/ledger/record/pyjson"
)

// Stages of the known shapes, without preflight (spec: Run shapes).
var (
	quoteStages   = []string{"question", "retrieval", "context", "prompt", "answer", "verify", "final_label"}
	pointerStages = []string{"question", "retrieval", "evidence_map", "prompt", "raw_answer",
		"parsed_claim_lattice", "verify", "render", "final_label"}
	rejectStages = []string{"question", Preflight, "final_label"}
)

// Preflight is the stage that a run may have after its question.
const Preflight = "preflight"

// The shapes of a run (spec: Run-DAG hashes).
const (
	ShapeQuote        = "quote"
	ShapePointer      = "pointer"
	ShapeReject       = "reject"
	ShapeUnrecognised = "unrecognised"
)

// IsKnownStage reports whether a known shape has a stage of that name.
func IsKnownStage(stage string) bool {
	return stage == Preflight || slices.Contains(quoteStages, stage) || slices.Contains(pointerStages, stage)
}

// Shape names the shape of a list of stages.
func Shape(stages []string) string {
	if slices.Equal(stages, rejectStages) {
		return ShapeReject
	}
	if len(stages) > 1 && stages[1] == Preflight {
		stages = slices.Concat(stages[:1], stages[2:])
	}
	switch {
	case slices.Equal(stages, quoteStages):
		return ShapeQuote
	case slices.Equal(stages, pointerStages):
		return ShapePointer
	}
	return ShapeUnrecognised
}

// PreflightOf says whether a run of these stages went through preflight (spec: Run shapes).
func PreflightOf(stages []string) string {
	if slices.Contains(stages, Preflight) {
		return "available"
	}
	return "unavailable_legacy_run"
}

// FailureStage says where a run that was built from inputs failed (spec: Run-DAG hashes); nil
// means that it did not. The numbers of sources and quotes are decimal.
func FailureStage(auditMode, sources, quotes []byte) []byte {
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

// StagePrefix begins the name of the check of one stage.
const StagePrefix = "stage:"

// StageChecks names the check of each stage of a run, no two alike. A stage that stands
// several times is told apart by the first of "#2", "#3", … that no other stage has in its
// name.
func StageChecks(stages []string) []string {
	taken := make(map[string]bool, len(stages))
	for _, stage := range stages {
		taken[stage] = true
	}
	met := make(map[string]int, len(stages)) // the number that a stage had last
	checks := make([]string, len(stages))
	for i, stage := range stages {
		name := stage
		if met[stage]++; met[stage] > 1 {
			for taken[name] {
				name = stage + "#" + strconv.Itoa(met[stage])
				met[stage]++
			}
			met[stage]--
			taken[name] = true
		}
		checks[i] = StagePrefix + name
	}
	return checks
}

// BaseHashes are the hashes of a run that its stages and its cache key are made of. Content
// is the record's member that each is computed from, empty for the preflight payload, which
// stands within others. Stage is the stage that carries it as it is, if any.
var BaseHashes = [...]struct{ Name, Content, Stage string }{
	{"question_hash", "question", "question"},
	{"preflight_hash", "", Preflight},
	{"context_root", "source_roots", "context"},
	{"evidence_map_root", "evidence", "evidence_map"},
	{"conversation_hash", "messages", "prompt"},
	{"governance_policy_hash", "policy", ""},
	{"verifier_policy_hash", "verifier_policy", ""},
}

// Dimensions are the dimensions of the cache key in the order in which they are joined
// (spec: Cache key); the last is optional.
var Dimensions = [...]string{
	"source_root", "question_hash", "model_profile_hash", "conversation_hash", "governance_policy_hash",
	"schema_version", "canonicalization_version", "chunking_version", "verifier_policy_hash",
}

// ClaimedDimensions are the dimensions that are hashes and that no content gives.
var ClaimedDimensions = [...]string{"source_root", "model_profile_hash"}

// IsVersion reports whether a dimension of the cache key is a version, and not a hash.
func IsVersion(dimension string) bool {
	return dimension == "schema_version" || dimension == "canonicalization_version" || dimension == "chunking_version"
}

// CacheKey is the cache key of dimensions in their order.
func CacheKey(dimensions [][]byte) Hash {
	return sha256.Sum256(bytes.Join(dimensions, []byte("|")))
}

// Clauses are the members of a preflight payload beside stage and node_version.
var Clauses = [...]string{"classifier", "answer_contract", "prompt_contract", "evidence_contract", "policy_refs", "question_state"}

// PreflightVersion is the node_version of a preflight payload.
const PreflightVersion = "preflight-node-v1"

// PreflightHash is the JSON hash of a preflight payload, its absent, null and empty clauses
// made {} (spec: Preflight payload).
func PreflightHash(payload pyjson.Value) Hash {
	return objectHash(func(w *pyjson.Builder) {
		w.Text("stage", []byte(Preflight))
		w.Text("node_version", []byte(PreflightVersion))
		for _, clause := range Clauses {
			if c := payload.Member(clause); c.Given() && !isEmpty(c) {
				w.Value(clause, c)
			} else {
				w.Raw(clause, []byte("{}"))
			}
		}
	})
}

// isEmpty is what CPython takes for false among containers and strings.
func isEmpty(v pyjson.Value) bool {
	switch v.Kind() {
	case pyjson.Object, pyjson.Array:
		return v.Len() == 0
	case pyjson.String:
		return len(v.Text()) == 0
	}
	return false
}

// RetrievalHash is the hash of the stage retrieval. It covers the sources, which are objects,
// and with a plan the plan's hash.
func RetrievalHash(sources pyjson.Value, plan []byte) Hash {
	w := &pyjson.Builder{B: []byte("[")}
	i := 0
	for source := range sources.Elements() {
		w.Comma(i)
		w.Open()
		for _, name := range [...]string{"chunk_idx", "document_root", "score", "source_role"} {
			valueOrNull(w, name, source.Member(name))
		}
		w.Close()
		i++
	}
	summary := sha256.Sum256(append(w.B, ']'))
	if plan == nil {
		return summary
	}
	return objectHash(func(w *pyjson.Builder) {
		w.Text("retrieval_plan_hash", plan)
		w.Digest("sources_summary_hash", summary)
	})
}

func valueOrNull(w *pyjson.Builder, name string, v pyjson.Value) {
	if v.Given() {
		w.Value(name, v)
	} else {
		w.Nullable(name, nil)
	}
}

// VerifyHash is the hash of the stage verify, of the inputs of a run. The numbers of quotes
// are decimal.
func VerifyHash(inputs pyjson.Value, quotes, verified, failureStage []byte) Hash {
	return objectHash(func(w *pyjson.Builder) {
		w.Value("audit_mode", inputs.Member("audit_mode"))
		w.Value("verifier_method", inputs.Member("verifier_method"))
		w.Raw("n_quotes", quotes)
		w.Raw("n_verified", verified)
		if statuses := inputs.Member("claim_statuses"); statuses.Given() {
			w.Value("claim_statuses", statuses)
		} else {
			w.Raw("claim_statuses", []byte("[]"))
		}
		w.Nullable("failure_stage", failureStage)
		w.Value("violations", inputs.Member("violations"))
	})
}

// LabelHash is the hash of the stage final_label, of the inputs of a run.
func LabelHash(inputs pyjson.Value) Hash {
	return objectHash(func(w *pyjson.Builder) {
		w.Value("audit_mode", inputs.Member("audit_mode"))
		w.Value("verifier_method", inputs.Member("verifier_method"))
		valueOrNull(w, "lookup_path", inputs.Member("lookup_path"))
		w.Value("answer_mode", inputs.Member("answer_mode"))
	})
}

// What a run that preflight rejected has where its inputs do not say.
const (
	RejectAuditMode      = "UNGROUNDED"
	RejectVerifierMethod = "claim_lattice_pointer"
)

// RejectLabelHash is the hash of the stage final_label of a run that preflight rejected.
// answer is empty where there is none.
func RejectLabelHash(inputs pyjson.Value, auditMode, verifierMethod, answer []byte) Hash {
	return objectHash(func(w *pyjson.Builder) {
		w.Text("audit_mode", auditMode)
		w.Text("verifier_method", verifierMethod)
		w.Text("lookup_path", []byte(Preflight))
		w.Value("rejection_reason", inputs.Member("rejection_reason"))
		w.Digest("answer_text_hash", sha256.Sum256(answer))
		w.Value("violations", inputs.Member("violations"))
	})
}

// LatticeHash is the hash of the stage parsed_claim_lattice; [] stands for an absent lattice.
func LatticeHash(lattice pyjson.Value) Hash {
	if !lattice.Given() {
		return sha256.Sum256([]byte("[]"))
	}
	sum, _ := JSONHash(nil, lattice)
	return sum
}

// QuestionHash is the hash of a question in its canonical form (spec: Run-DAG hashes).
func QuestionHash(question []byte, strict bool) Hash {
	return sha256.Sum256(AppendQuestion(nil, question, strict))
}

// The modes of a question (spec: Canonical question).
const (
	ModeStrict      = "strict"
	ModeEquivalence = "equivalence_class"
)

// PreflightCheck names the check of the hash of a preflight payload that stands beside a DAG.
const PreflightCheck = "dag.preflight_payload"
