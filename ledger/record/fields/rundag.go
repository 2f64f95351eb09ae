package fields

import (
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// NamedHash is a stage of a run-DAG with its hash, or a dimension of a cache key with its value,
// usually a hash. Hash is nil if that value is null.
type NamedHash struct{ Name, Hash []byte }

// RunDAG holds the fields of a run_dag event, which lists the stages of a question-answering run
// (spec: Run-DAG hashes). Fields that are null or missing are nil.
type RunDAG struct {
	Root []byte // root of the Merkle tree over the hashes of the stages
	// QuestionHash is the hash of the canonical question. CacheKey covers CacheDimensions.
	QuestionHash, CacheKey []byte

	// PreflightHash covers the preflight payload, ContextRoot covers the document roots of the sources,
	// EvidenceMapRoot covers the evidence IDs, and ConversationHash covers the messages to the model.
	PreflightHash, ContextRoot, EvidenceMapRoot, ConversationHash []byte
	// GovernancePolicyHash covers the governance policy, and VerifierPolicyHash covers the verifier's
	// part of it.
	GovernancePolicyHash, VerifierPolicyHash []byte
	// SourceRoot and ModelProfileHash are dimensions of the cache key. They are always claims, because
	// records do not contain what they cover.
	SourceRoot, ModelProfileHash []byte

	Stages []NamedHash // in the order of the run
	// CacheDimensions holds the name and the value of each dimension of the cache key.
	CacheDimensions []NamedHash

	// Shape is one of rules.ShapeQuote, ShapePointer, ShapeReject, and ShapeUnrecognised. FailureStage
	// is "retrieval", "context", or "answer", or nil if the run did not fail or its inputs are
	// unknown. PreflightStatus is "available" if the run has a preflight stage, and
	// "unavailable_legacy_run" if not.
	Shape, FailureStage, PreflightStatus []byte
	// PreflightGeneration identifies the version of the preflight payload's format. It is nil for
	// the current version (spec: Preflight payload).
	PreflightGeneration []byte
	// AuditMode is the outcome of the audit, and VerifierMethod says how the answer was verified.
	// LookupPath says how the answer was found, and AnswerMode how it is given.
	AuditMode, VerifierMethod, LookupPath, AnswerMode []byte
	// QuoteCount is the number of quotes in the answer, and VerifiedQuoteCount is the number of those
	// that were verified. SourceCount is the number of sources that retrieval found. All are decimal.
	QuoteCount, VerifiedQuoteCount, SourceCount []byte
	QuestionMode                                []byte // rules.QuestionModeStrict or rules.QuestionModeEquivalence

	// DocumentRoots and EvidenceIDs are sorted and contain no duplicates. Each is nil if it would
	// have more than MaxSetElements elements (spec: Run-DAG).
	DocumentRoots, EvidenceIDs [][]byte
}

// MaxSetElements is the maximum number of elements in RunDAG.DocumentRoots and in RunDAG.EvidenceIDs.
const MaxSetElements = 256

// runHashes lists the names of a run-DAG's effective hashes in the same order as in an event.
var runHashes = [...]string{
	"cache_key", "context_root", "conversation_hash", "evidence_map_root", "governance_policy_hash", "model_profile_hash",
	"preflight_hash", "question_hash", "root", "source_root", "verifier_policy_hash",
}

// HashField returns a pointer to the field that holds the effective hash with the given name, or nil
// if a run-DAG has no such hash.
func (f *RunDAG) HashField(name string) *[]byte {
	switch name {
	case "cache_key":
		return &f.CacheKey
	case "context_root":
		return &f.ContextRoot
	case "conversation_hash":
		return &f.ConversationHash
	case "evidence_map_root":
		return &f.EvidenceMapRoot
	case "governance_policy_hash":
		return &f.GovernancePolicyHash
	case "model_profile_hash":
		return &f.ModelProfileHash
	case "preflight_hash":
		return &f.PreflightHash
	case "question_hash":
		return &f.QuestionHash
	case "root":
		return &f.Root
	case "source_root":
		return &f.SourceRoot
	case "verifier_policy_hash":
		return &f.VerifierPolicyHash
	}
	return nil
}

// CacheDimension returns the value of the cache-key dimension with the given name, or nil if the
// value is null. given is false if the run-DAG has no cache key or the key lacks that dimension.
func (f *RunDAG) CacheDimension(name string) (value []byte, given bool) {
	for _, d := range f.CacheDimensions {
		if string(d.Name) == name {
			return d.Hash, true
		}
	}
	return nil, false
}

// StageNames returns the names of the stages in the order in which the record lists them.
func (f *RunDAG) StageNames() []string {
	names := make([]string, len(f.Stages))
	for i, s := range f.Stages {
		names[i] = string(s.Name)
	}
	return names
}

// Check implements Fields.
func (f *RunDAG) Check() error {
	var c forms
	c.requiredHash("root", f.Root)
	for _, name := range runHashes {
		c.hash(name, *f.HashField(name))
	}
	for _, s := range f.Stages {
		c.required("stage", s.Name, MaxShortTextBytes)
		c.requiredHash("stage hash", s.Hash)
	}
	c.text("answer_mode", f.AnswerMode, MaxNameBytes)
	c.text("audit_mode", f.AuditMode, MaxNameBytes)
	c.text("lookup_path", f.LookupPath, MaxNameBytes)
	c.text("verifier_method", f.VerifierMethod, MaxNameBytes)
	c.count("n_quotes", f.QuoteCount)
	c.count("n_sources", f.SourceCount)
	c.count("n_verified", f.VerifiedQuoteCount)
	c.required("preflight", f.PreflightStatus, MaxNameBytes)
	c.text("preflight_generation", f.PreflightGeneration, MaxShortTextBytes)
	c.required("shape", f.Shape, MaxNameBytes)
	c.sortedSet("document_roots", f.DocumentRoots, rules.IsDigest)
	c.sortedSet("evidence_ids", f.EvidenceIDs, rules.IsEvidenceID)
	if len(f.CacheDimensions) == 0 {
		return c.err
	}
	for i, name := range rules.CacheDimensions {
		value, given := f.CacheDimension(name)
		switch {
		case !given && i < len(rules.CacheDimensions)-1:
			c.required("cache_dimensions/"+name, nil, 0)
		case rules.IsVersionDimension(name):
			c.text("cache_dimensions/"+name, value, MaxNameBytes)
		case given:
			c.requiredHash("cache_dimensions/"+name, value)
		}
	}
	return c.err
}

// Append implements Fields.
func (f *RunDAG) Append(w *pyjson.Builder, c *CommonFields) {
	w.BeginSortedObject()
	w.AddText("answer_mode", f.AnswerMode)
	w.AddText("audit_mode", f.AuditMode)
	f.appendDimensions(w)
	c.appendContents(w)
	w.AddDigest("digest", c.Digest)
	if f.DocumentRoots != nil {
		w.AddTexts("document_roots", f.DocumentRoots)
	}
	if f.EvidenceIDs != nil {
		w.AddTexts("evidence_ids", f.EvidenceIDs)
	}
	w.AddNullableText("failure_stage", f.FailureStage)
	c.appendHashes(w, f)
	c.appendKey(w)
	w.AddValue("labels", c.Labels)
	w.AddText("lookup_path", f.LookupPath)
	w.AddRaw("n_quotes", f.QuoteCount)
	w.AddRaw("n_sources", f.SourceCount)
	w.AddRaw("n_verified", f.VerifiedQuoteCount)
	w.BeginMember("nodes")
	w.Buf = append(w.Buf, '[')
	for i, n := range f.Stages {
		w.WriteComma(i)
		w.BeginSortedObject()
		w.AddText("hash", n.Hash)
		w.AddText("stage", n.Name)
		w.EndObject()
	}
	w.Buf = append(w.Buf, ']')
	w.AddText("preflight", f.PreflightStatus)
	w.AddText("preflight_generation", f.PreflightGeneration)
	c.Producer.append(w)
	w.AddText("question_mode", f.QuestionMode)
	w.AddText("run_id", c.RunID)
	w.AddText("shape", f.Shape)
	w.AddText("timestamp", c.Timestamp)
	w.AddText("verifier_method", f.VerifierMethod)
	w.EndObject()
}

func (f *RunDAG) appendDimensions(w *pyjson.Builder) {
	if len(f.CacheDimensions) == 0 {
		return
	}
	w.BeginMember("cache_dimensions")
	w.BeginObject()
	for _, d := range f.CacheDimensions {
		w.AddNullableText(string(d.Name), d.Hash)
	}
	w.EndObject()
}

// AppendHashes implements FieldsWithHashes.
func (f *RunDAG) AppendHashes(w *pyjson.Builder) {
	for _, name := range runHashes {
		w.AddText(name, *f.HashField(name))
	}
}
