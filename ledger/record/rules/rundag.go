package rules

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strconv"

	"colophon/ledger/record/pyjson"
)

// These are the stages of each known run shape (spec: Run shapes). They include preflight only
// where it is required.
var (
	quoteStages   = []string{"question", "retrieval", "context", "prompt", "answer", "verify", "final_label"}
	pointerStages = []string{"question", "retrieval", "evidence_map", "prompt", "raw_answer",
		"parsed_claim_lattice", "verify", "render", "final_label"}
	rejectStages = []string{"question", PreflightStage, "final_label"}
)

// PreflightStage is the name of the stage that a run can have after its question.
const PreflightStage = "preflight"

// These are the shapes of a run (spec: Run-DAG hashes).
const (
	ShapeQuote        = "quote"        // a run with the stages context and answer
	ShapePointer      = "pointer"      // a run with the stages evidence_map, parsed_claim_lattice, and render
	ShapeReject       = "reject"       // a run that preflight rejected
	ShapeUnrecognised = "unrecognised" // a run with any other list of stages
)

// IsKnownStage reports whether runs of a known shape can have a stage with the given name.
func IsKnownStage(stage string) bool {
	return stage == PreflightStage || slices.Contains(quoteStages, stage) || slices.Contains(pointerStages, stage)
}

// RunShape returns the shape of a run that has the given stages in the given order.
func RunShape(stages []string) string {
	if slices.Equal(stages, rejectStages) {
		return ShapeReject
	}
	if len(stages) > 1 && stages[1] == PreflightStage {
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

// PreflightStatus returns the value of the member "preflight" in the event of a run with the given
// stages (spec: Run shapes).
func PreflightStatus(stages []string) string {
	if slices.Contains(stages, PreflightStage) {
		return "available"
	}
	return "unavailable_legacy_run"
}

// FailureStage returns the stage at which a run failed, or nil if it did not fail (spec: Run-DAG
// hashes). The run must be built from inputs. sources and quotes are decimal numbers.
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

// AnswerStage returns the stage whose hash covers answer_text in a run-DAG without inputs. This is
// "answer" or, if the run does not have that stage, "render". AnswerStage returns "" if the run has
// neither.
func AnswerStage(stages []string) string {
	for _, stage := range [...]string{"answer", "render"} {
		if slices.Contains(stages, stage) {
			return stage
		}
	}
	return ""
}

// AnswerCheckName is the name of the check for an answer_text that is not covered by any stage of its
// run. The result of this check is always "claimed".
const AnswerCheckName = "answer_text"

// StageCheckPrefix is the prefix of the names of stage checks.
const StageCheckPrefix = "stage:"

// StageCheckNames returns a distinct name for the check of each stage. A stage whose name is repeated
// gets the first of the suffixes "#2", "#3", … that makes the name unique.
func StageCheckNames(stages []string) []string {
	taken := make(map[string]bool, len(stages))
	for _, stage := range stages {
		taken[stage] = true
	}
	lastSuffix := make(map[string]int, len(stages)) // last suffix number tried for each stage name
	checks := make([]string, len(stages))
	for i, stage := range stages {
		name := stage
		if lastSuffix[stage]++; lastSuffix[stage] > 1 {
			for taken[name] {
				name = stage + "#" + strconv.Itoa(lastSuffix[stage])
				lastSuffix[stage]++
			}
			lastSuffix[stage]--
			taken[name] = true
		}
		checks[i] = StageCheckPrefix + name
	}
	return checks
}

// BaseHashes lists the hashes from which the stages and the cache key of a run are computed.
// Content is the member of the record that is hashed. It is empty for preflight_hash, because the
// preflight payload is nested in other members. Stage is the stage that has this hash, or "" if no
// stage has it.
var BaseHashes = [...]struct{ Name, Content, Stage string }{
	{"question_hash", "question", "question"},
	{"preflight_hash", "", PreflightStage},
	{"context_root", "source_roots", "context"},
	{"evidence_map_root", "evidence", "evidence_map"},
	{"conversation_hash", "messages", "prompt"},
	{"governance_policy_hash", "policy", ""},
	{"verifier_policy_hash", "verifier_policy", ""},
}

// CacheDimensions lists the dimensions of the cache key in the order that CacheKey requires (spec: Cache
// key). The last dimension is optional.
var CacheDimensions = [...]string{
	"source_root", "question_hash", "model_profile_hash", "conversation_hash", "governance_policy_hash",
	"schema_version", "canonicalization_version", "chunking_version", "verifier_policy_hash",
}

// ClaimOnlyDimensions lists the hash dimensions that cannot be computed from content.
var ClaimOnlyDimensions = [...]string{"source_root", "model_profile_hash"}

// IsVersionDimension reports whether the given dimension of the cache key is a version. All other
// dimensions are hashes.
func IsVersionDimension(dimension string) bool {
	return dimension == "schema_version" || dimension == "canonicalization_version" || dimension == "chunking_version"
}

// CacheKey returns the cache key for the given values of the dimensions, which must be in the order
// of CacheDimensions (spec: Cache key).
func CacheKey(dimensions [][]byte) Hash {
	return sha256.Sum256(bytes.Join(dimensions, []byte("|")))
}

// PreflightClauses lists the members of a preflight payload other than stage and node_version.
var PreflightClauses = [...]string{"classifier", "answer_contract", "prompt_contract", "evidence_contract", "policy_refs", "question_state"}

// PreflightVersion is the node_version of preflight payloads in the current version of the format.
const PreflightVersion = "preflight-node-v1"

// LegacyPreflightGeneration is the generation of a preflight payload that is not in the current
// format and whose node_version does not identify its format.
const LegacyPreflightGeneration = "legacy"

// PreflightGeneration identifies the format of a preflight payload; nil means the current format
// (spec: Preflight payload). The payload must be an object. For any other format,
// PreflightGeneration returns the payload's node_version, or LegacyPreflightGeneration if
// node_version is missing, not valid, or PreflightVersion. maxVersion is the maximum length of
// node_version in bytes.
func PreflightGeneration(payload pyjson.Value, maxVersion int) []byte {
	version := payload.Member("node_version")
	if text := version.Text(); version.Kind() == pyjson.String && string(text) != PreflightVersion &&
		len(text) > 0 && len(text) <= maxVersion && !pyjson.HasLoneSurrogate(text) {
		return text
	}
	if version.IsGiven() && string(version.Text()) != PreflightVersion {
		return []byte(LegacyPreflightGeneration)
	}
	if stage := payload.Member("stage"); stage.IsGiven() && string(stage.Text()) != PreflightStage {
		return []byte(LegacyPreflightGeneration)
	}
	for name := range payload.Members() {
		text := string(name.Text())
		if text != "stage" && text != "node_version" && !slices.Contains(PreflightClauses[:], text) {
			return []byte(LegacyPreflightGeneration)
		}
	}
	return nil
}

// PreflightHash returns the JSON hash of a preflight payload (spec: Preflight payload). If the
// payload is in the current version of the format, absent, null, and empty clauses are hashed as
// {}. Any other payload is hashed unchanged.
func PreflightHash(payload pyjson.Value) Hash {
	if PreflightGeneration(payload, 0) != nil {
		sum, _ := JSONHash(nil, payload)
		return sum
	}
	return objectHash(func(w *pyjson.Builder) {
		w.AddText("stage", []byte(PreflightStage))
		w.AddText("node_version", []byte(PreflightVersion))
		for _, clause := range PreflightClauses {
			if c := payload.Member(clause); c.IsGiven() && !isEmpty(c) {
				w.AddValue(clause, c)
			} else {
				w.AddRaw(clause, []byte("{}"))
			}
		}
	})
}

// isEmpty reports whether v is an empty object, array, or string, all of which Python treats as
// false.
func isEmpty(v pyjson.Value) bool {
	switch v.Kind() {
	case pyjson.Object, pyjson.Array:
		return v.Len() == 0
	case pyjson.String:
		return len(v.Text()) == 0
	}
	return false
}

// RetrievalHash returns the hash of the stage "retrieval", which covers sources. The elements of
// sources must be objects. If plan, the hash of the retrieval plan, is not nil, the result also
// covers plan.
func RetrievalHash(sources pyjson.Value, plan []byte) Hash {
	w := &pyjson.Builder{Buf: []byte("[")}
	i := 0
	for source := range sources.Elements() {
		w.WriteComma(i)
		w.BeginObject()
		for _, name := range [...]string{"chunk_idx", "document_root", "score", "source_role"} {
			valueOrNull(w, name, source.Member(name))
		}
		w.EndObject()
		i++
	}
	summary := sha256.Sum256(append(w.Buf, ']'))
	if plan == nil {
		return summary
	}
	return objectHash(func(w *pyjson.Builder) {
		w.AddText("retrieval_plan_hash", plan)
		w.AddDigest("sources_summary_hash", summary)
	})
}

func valueOrNull(w *pyjson.Builder, name string, v pyjson.Value) {
	if v.IsGiven() {
		w.AddValue(name, v)
	} else {
		w.AddNullableText(name, nil)
	}
}

// VerificationHash returns the hash of the stage "verify", computed from the inputs of a run. quotes
// and verified are decimal numbers. failureStage may be nil.
func VerificationHash(inputs pyjson.Value, quotes, verified, failureStage []byte) Hash {
	return objectHash(func(w *pyjson.Builder) {
		w.AddValue("audit_mode", inputs.Member("audit_mode"))
		w.AddValue("verifier_method", inputs.Member("verifier_method"))
		w.AddRaw("n_quotes", quotes)
		w.AddRaw("n_verified", verified)
		if statuses := inputs.Member("claim_statuses"); statuses.IsGiven() {
			w.AddValue("claim_statuses", statuses)
		} else {
			w.AddRaw("claim_statuses", []byte("[]"))
		}
		w.AddNullableText("failure_stage", failureStage)
		w.AddValue("violations", inputs.Member("violations"))
	})
}

// FinalLabelHash returns the hash of the stage "final_label", computed from the inputs of a run.
func FinalLabelHash(inputs pyjson.Value) Hash {
	return objectHash(func(w *pyjson.Builder) {
		w.AddValue("audit_mode", inputs.Member("audit_mode"))
		w.AddValue("verifier_method", inputs.Member("verifier_method"))
		valueOrNull(w, "lookup_path", inputs.Member("lookup_path"))
		w.AddValue("answer_mode", inputs.Member("answer_mode"))
	})
}

// These are the default inputs of a run that preflight rejected.
const (
	DefaultRejectionAuditMode      = "UNGROUNDED"            // audit_mode, the outcome of the audit
	DefaultRejectionVerifierMethod = "claim_lattice_pointer" // verifier_method, which says how answers are verified
)

// RejectionLabelHash returns the hash of the stage "final_label" for a run that preflight rejected. If
// the run has no answer, answer is empty.
func RejectionLabelHash(inputs pyjson.Value, auditMode, verifierMethod, answer []byte) Hash {
	return objectHash(func(w *pyjson.Builder) {
		w.AddText("audit_mode", auditMode)
		w.AddText("verifier_method", verifierMethod)
		w.AddText("lookup_path", []byte(PreflightStage))
		w.AddValue("rejection_reason", inputs.Member("rejection_reason"))
		w.AddDigest("answer_text_hash", sha256.Sum256(answer))
		w.AddValue("violations", inputs.Member("violations"))
	})
}

// LatticeHash returns the hash of the stage "parsed_claim_lattice". A lattice that is null or
// absent is hashed as [].
func LatticeHash(lattice pyjson.Value) Hash {
	if !lattice.IsGiven() {
		return sha256.Sum256([]byte("[]"))
	}
	sum, _ := JSONHash(nil, lattice)
	return sum
}

// QuestionHash returns the hash of a question in canonical form (spec: Run-DAG hashes). If strict
// is true, the mode is QuestionModeStrict; otherwise it is QuestionModeEquivalence.
func QuestionHash(question []byte, strict bool) Hash {
	return sha256.Sum256(AppendCanonicalQuestion(nil, question, strict))
}

// These are the modes of a question (spec: Canonical question).
const (
	QuestionModeStrict      = "strict"            // the hash depends on case, punctuation, and articles
	QuestionModeEquivalence = "equivalence_class" // the hash ignores case, final punctuation, and articles
)

// PreflightCheckName is the name of the check that compares the preflight payload in dag with the
// preflight payload in inputs or reject_inputs.
const PreflightCheckName = "dag.preflight_payload"

// IsEvidenceID reports whether text has the form of an evidence id (spec: Hashes of other content).
func IsEvidenceID(text []byte) bool {
	digits, is := bytes.CutPrefix(text, []byte("E"))
	return is && IsHexDigits(digits, 8)
}
