package fields

import (
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// NamedHash is either a stage of a run-DAG with its hash, or a dimension of a cache key with its
// value. Hash is nil if that value is null.
type NamedHash struct{ Name, Hash []byte }

// RunDAG holds the fields of a run_dag event (spec: Run-DAG hashes). Fields that are null or
// missing are nil.
type RunDAG struct {
	Root, QuestionHash, CacheKey []byte

	PreflightHash, ContextRoot, EvidenceMapRoot, ConversationHash []byte
	GovernancePolicyHash, VerifierPolicyHash                      []byte
	SourceRoot, ModelProfileHash                                  []byte

	Stages []NamedHash
	// Dimensions holds the name and the value of each dimension of the cache key.
	Dimensions []NamedHash

	Shape, FailureStage, PreflightStatus []byte
	// PreflightGeneration identifies the version of the preflight payload's format. It is nil for
	// the current version (spec: Preflight payload).
	PreflightGeneration                               []byte
	AuditMode, VerifierMethod, LookupPath, AnswerMode []byte
	QuoteCount, VerifiedCount, SourceCount            []byte // decimal numbers
	QuestionMode                                      []byte

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

// Dimension returns the value of the cache-key dimension with the given name, or nil if the value
// is null. given is false if the run-DAG has no cache key or the key lacks that dimension.
func (f *RunDAG) Dimension(name string) (value []byte, given bool) {
	for _, d := range f.Dimensions {
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
		c.required("stage", s.Name, MaxShortText)
		c.requiredHash("stage hash", s.Hash)
	}
	c.text("answer_mode", f.AnswerMode, MaxName)
	c.text("audit_mode", f.AuditMode, MaxName)
	c.text("lookup_path", f.LookupPath, MaxName)
	c.text("verifier_method", f.VerifierMethod, MaxName)
	c.count("n_quotes", f.QuoteCount)
	c.count("n_sources", f.SourceCount)
	c.count("n_verified", f.VerifiedCount)
	c.required("preflight", f.PreflightStatus, MaxName)
	c.text("preflight_generation", f.PreflightGeneration, MaxShortText)
	c.required("shape", f.Shape, MaxName)
	c.sortedSet("document_roots", f.DocumentRoots, rules.IsDigest)
	c.sortedSet("evidence_ids", f.EvidenceIDs, rules.IsEvidenceID)
	if len(f.Dimensions) == 0 {
		return c.err
	}
	for i, name := range rules.CacheDimensions {
		value, given := f.Dimension(name)
		switch {
		case !given && i < len(rules.CacheDimensions)-1:
			c.required("cache_dimensions/"+name, nil, 0)
		case rules.IsVersionDimension(name):
			c.text("cache_dimensions/"+name, value, MaxName)
		case given:
			c.requiredHash("cache_dimensions/"+name, value)
		}
	}
	return c.err
}

// Append implements Fields.
func (f *RunDAG) Append(w *pyjson.Builder, c *CommonFields) {
	w.BeginSortedObject()
	w.Text("answer_mode", f.AnswerMode)
	w.Text("audit_mode", f.AuditMode)
	f.appendDimensions(w)
	c.appendContents(w)
	w.Digest("digest", c.Digest)
	if f.DocumentRoots != nil {
		w.Texts("document_roots", f.DocumentRoots)
	}
	if f.EvidenceIDs != nil {
		w.Texts("evidence_ids", f.EvidenceIDs)
	}
	w.NullableText("failure_stage", f.FailureStage)
	c.appendHashes(w, f)
	c.appendKey(w)
	w.Value("labels", c.Labels)
	w.Text("lookup_path", f.LookupPath)
	w.Raw("n_quotes", f.QuoteCount)
	w.Raw("n_sources", f.SourceCount)
	w.Raw("n_verified", f.VerifiedCount)
	w.BeginMember("nodes")
	w.Buf = append(w.Buf, '[')
	for i, n := range f.Stages {
		w.Comma(i)
		w.BeginSortedObject()
		w.Text("hash", n.Hash)
		w.Text("stage", n.Name)
		w.EndObject()
	}
	w.Buf = append(w.Buf, ']')
	w.Text("preflight", f.PreflightStatus)
	w.Text("preflight_generation", f.PreflightGeneration)
	c.Producer.append(w)
	w.Text("question_mode", f.QuestionMode)
	w.Text("run_id", c.RunID)
	w.Text("shape", f.Shape)
	w.Text("timestamp", c.Timestamp)
	w.Text("verifier_method", f.VerifierMethod)
	w.EndObject()
}

func (f *RunDAG) appendDimensions(w *pyjson.Builder) {
	if len(f.Dimensions) == 0 {
		return
	}
	w.BeginMember("cache_dimensions")
	w.BeginObject()
	for _, d := range f.Dimensions {
		w.NullableText(string(d.Name), d.Hash)
	}
	w.EndObject()
}

// AppendHashes implements HashedFields.
func (f *RunDAG) AppendHashes(w *pyjson.Builder) {
	for _, name := range runHashes {
		w.Text(name, *f.HashField(name))
	}
}
