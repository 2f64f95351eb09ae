package record

import (
	"strconv"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// Fields is what the record of an event has that only its kind has. There is one type for
// each kind: it is filled by what decodes a request and by what reads an event (package
// event), and writes the event in both cases.
type Fields interface {
	// Check reports what no event of the kind can say: a member that is missing, too long,
	// or of the wrong form. What has a wrong type is not in the fields.
	Check() error
	append(w *pyjson.Builder, c *CommonFields)
}

// hashFields are fields that have effective hashes (spec: Effective hashes).
type hashFields interface {
	Fields
	appendHashes(w *pyjson.Builder) // in their order
}

// CommonFields is what the record of an event has that the records of other kinds have too.
type CommonFields struct {
	Contents []ContentField
	Digest   Hash
	Key      *Hash        // digest of the idempotency key; nil when there is none
	Labels   pyjson.Value // Absent when there are none
	Producer Producer
	RunID    []byte // nil when there is none, as is Timestamp
	// Timestamp is as it was sent, RFC 3339.
	Timestamp []byte

	hashes []byte // those of the fields in canonical JSON, if they were written before
}

// ContentField names a piece of content (spec: Content).
type ContentField struct {
	Name   string
	Digest []byte // SHA-256 of its bytes, in hexadecimal digits
	Size   uint64 // in bytes
}

func (c *CommonFields) appendContents(w *pyjson.Builder) {
	if len(c.Contents) > 0 {
		w.Name("content")
		w.Open()
		for i := range c.Contents {
			named := &c.Contents[i]
			w.Name(named.Name)
			w.B = append(append(w.B, `{"sha256":"`...), named.Digest...)
			w.B = append(strconv.AppendUint(append(w.B, `","size":`...), named.Size, 10), '}')
		}
		w.Close()
	}
}

// appendIdentity writes the digest of the record, and that of its idempotency key.
func (c *CommonFields) appendIdentity(w *pyjson.Builder) {
	w.Digest("digest", c.Digest)
	c.appendKey(w)
}

func (c *CommonFields) appendKey(w *pyjson.Builder) {
	if c.Key != nil {
		w.Digest("idempotency_key", *c.Key)
	}
}

func (c *CommonFields) appendHashes(w *pyjson.Builder, f hashFields) {
	w.Name("hashes")
	if c.hashes != nil {
		w.B = append(w.B, c.hashes...)
		return
	}
	w.OpenOrdered()
	f.appendHashes(w)
	w.Close()
}

// CheckField is the check of one hash as an event has it (spec: Checks). Claimed and Computed
// are nil where they are not shown, or null.
type CheckField struct {
	Result            Result
	Claimed, Computed []byte
}

func (c *CheckField) append(w *pyjson.Builder) {
	if c.Result != Mismatch && c.Claimed == nil { // most are like that
		w.B = pyjson.AppendString(append(w.B, `{"result":`...), []byte(c.Result))
		w.B = append(w.B, '}')
		return
	}
	w.OpenOrdered()
	if c.Result == Mismatch {
		w.Nullable("claimed", c.Claimed)
		w.Nullable("computed", c.Computed)
	} else {
		w.Text("claimed", c.Claimed)
	}
	w.Text("result", []byte(c.Result))
	w.Close()
}

// NamedCheck is a check and the hash that it is of.
type NamedCheck struct {
	Name string
	CheckField
}

// AppendFields appends an event body that was read, up to the members that AppendSuffixAt
// appends.
func AppendFields(w *pyjson.Builder, kind Kind, e Event, checks []NamedCheck, f Fields, c *CommonFields) []byte {
	appendChecks := func(w *pyjson.Builder) {
		w.Name("checks")
		w.Open()
		for i := range checks {
			w.Name(checks[i].Name)
			checks[i].append(w)
		}
		w.Close()
	}
	return appendEvent(w, kind, e, appendChecks, func(w *pyjson.Builder) { f.append(w, c) })
}

// IPCFields is what an ipc_record event says (spec: IPC hashes). Texts are as the event has
// them, numbers in their canonical form; nil where null or absent.
type IPCFields struct {
	InputHash, SystemPromptHash, OutputHash, IPCID []byte
	// IPCIDAdvanced is nil where it is null, too. HasAdvanced: the event has it.
	IPCIDAdvanced []byte
	HasAdvanced   bool

	Model, Temperature, MaxTokens, Seed []byte

	OllamaBuildHash, ModelDigest, HostPlatform []byte

	PayloadSchema []byte
	Usage         pyjson.Value // Absent where it is content or not given
}

// IsRun reports whether the record is a run: it has an ipc_id and an output hash
// (spec: Runs).
func (f *IPCFields) IsRun() bool { return f.IPCID != nil && f.OutputHash != nil }

func (f *IPCFields) append(w *pyjson.Builder, c *CommonFields) {
	w.OpenOrdered()
	c.appendContents(w)
	w.Digest("digest", c.Digest)
	if f.OllamaBuildHash != nil || f.ModelDigest != nil || f.HostPlatform != nil {
		w.Name("environment")
		w.OpenOrdered()
		w.Text("host_platform", f.HostPlatform)
		w.Text("model_digest", f.ModelDigest)
		w.Text("ollama_build_hash", f.OllamaBuildHash)
		w.Close()
	}
	c.appendHashes(w, f)
	c.appendKey(w)
	w.Value("labels", c.Labels)
	w.Raw("max_tokens", f.MaxTokens)
	w.Text("model", f.Model)
	w.Text("payload_schema", f.PayloadSchema)
	c.Producer.append(w)
	w.Text("run_id", c.RunID)
	w.Raw("seed", f.Seed)
	w.Raw("temperature", f.Temperature)
	w.Text("timestamp", c.Timestamp)
	w.Value("usage", f.Usage)
	w.Close()
}

func (f *IPCFields) appendHashes(w *pyjson.Builder) {
	w.Plain("input_hash", f.InputHash)
	w.Plain("ipc_id", f.IPCID)
	if f.HasAdvanced {
		w.Plain("ipc_id_advanced", f.IPCIDAdvanced)
	}
	w.Plain("output_hash", f.OutputHash)
	w.Plain("system_prompt_hash", f.SystemPromptHash)
}

// StageField is one node of a run-DAG, name and hash, or one dimension of its cache key,
// whose value is nil for null.
type StageField struct{ Name, Hash []byte }

// RunFields is what a run_dag event says (spec: Run-DAG hashes). What is null or absent is nil.
type RunFields struct {
	Root, QuestionHash, CacheKey []byte

	PreflightHash, ContextRoot, EvidenceMapRoot, ConversationHash []byte
	GovernancePolicyHash, VerifierPolicyHash                      []byte
	SourceRoot, ModelProfileHash                                  []byte

	Stages []StageField
	// Dimensions are the cache-key dimensions, by name.
	Dimensions []StageField

	Shape, FailureStage, Preflight                    []byte
	AuditMode, VerifierMethod, LookupPath, AnswerMode []byte
	Quotes, Verified, Sources                         []byte // decimal
	QuestionMode                                      []byte
}

// runHashes are the names of the hashes that a run may have.
var runHashes = [...]string{
	"cache_key", "context_root", "conversation_hash", "evidence_map_root", "governance_policy_hash", "model_profile_hash",
	"preflight_hash", "question_hash", "root", "source_root", "verifier_policy_hash",
}

// Hash is the place of the effective hash of that name; nil if a run has none of that name.
func (f *RunFields) Hash(name string) *[]byte {
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

// Dimension is the value of a dimension of the cache key. It is not given if the run has no
// cache key, or none with that dimension.
func (f *RunFields) Dimension(name string) (value []byte, given bool) {
	for _, d := range f.Dimensions {
		if string(d.Name) == name {
			return d.Hash, true
		}
	}
	return nil, false
}

// StageNames are the names of the stages, in their order.
func (f *RunFields) StageNames() []string {
	names := make([]string, len(f.Stages))
	for i, s := range f.Stages {
		names[i] = string(s.Name)
	}
	return names
}

func (f *RunFields) append(w *pyjson.Builder, c *CommonFields) {
	w.OpenOrdered()
	w.Text("answer_mode", f.AnswerMode)
	w.Text("audit_mode", f.AuditMode)
	f.appendDimensions(w)
	c.appendContents(w)
	w.Digest("digest", c.Digest)
	w.Nullable("failure_stage", f.FailureStage)
	c.appendHashes(w, f)
	c.appendKey(w)
	w.Value("labels", c.Labels)
	w.Text("lookup_path", f.LookupPath)
	w.Raw("n_quotes", f.Quotes)
	w.Raw("n_sources", f.Sources)
	w.Raw("n_verified", f.Verified)
	w.Name("nodes")
	w.B = append(w.B, '[')
	for i, n := range f.Stages {
		w.Comma(i)
		w.OpenOrdered()
		w.Text("hash", n.Hash)
		w.Text("stage", n.Name)
		w.Close()
	}
	w.B = append(w.B, ']')
	w.Text("preflight", f.Preflight)
	c.Producer.append(w)
	w.Text("question_mode", f.QuestionMode)
	w.Text("run_id", c.RunID)
	w.Text("shape", f.Shape)
	w.Text("timestamp", c.Timestamp)
	w.Text("verifier_method", f.VerifierMethod)
	w.Close()
}

func (f *RunFields) appendDimensions(w *pyjson.Builder) {
	if len(f.Dimensions) == 0 {
		return
	}
	w.Name("cache_dimensions")
	w.Open()
	for _, d := range f.Dimensions {
		w.Nullable(string(d.Name), d.Hash)
	}
	w.Close()
}

func (f *RunFields) appendHashes(w *pyjson.Builder) {
	for _, name := range runHashes {
		w.Text(name, *f.Hash(name))
	}
}

// CitationField is one citation of a set. Section is nil for null.
type CitationField struct {
	ChunkHash, SourceID, Section []byte
	Weight                       []byte // canonical number
}

// SetFields is what a citation_set event says (spec: Citation hashes).
type SetFields struct {
	Subject   []byte
	Citations []CitationField
}

func (f *SetFields) append(w *pyjson.Builder, c *CommonFields) {
	w.OpenOrdered()
	w.Name("citations")
	w.B = append(w.B, '[')
	for i, c := range f.Citations {
		w.Comma(i)
		w.OpenOrdered()
		w.Text("chunk_hash", c.ChunkHash)
		w.Nullable("section", c.Section)
		w.Text("source_id", c.SourceID)
		w.Raw("weight", c.Weight)
		w.Close()
	}
	w.B = append(w.B, ']')
	c.appendContents(w)
	c.appendIdentity(w)
	w.Value("labels", c.Labels)
	c.Producer.append(w)
	w.Text("run_id", c.RunID)
	w.Text("subject", f.Subject)
	w.Text("timestamp", c.Timestamp)
	w.Close()
}

func (f *SetFields) appendHashes(*pyjson.Builder) {}

// PathFields is what a path_fingerprint event says (spec: Path fingerprints). What is null is
// nil.
type PathFields struct {
	Project, Build                                    []byte
	PathID, ContentFingerprint, RawContentFingerprint []byte
	Passages                                          [][]byte // of the route
}

func (f *PathFields) append(w *pyjson.Builder, c *CommonFields) {
	w.OpenOrdered()
	w.Text("build", f.Build)
	c.appendContents(w)
	w.Digest("digest", c.Digest)
	w.Text("hash_version", []byte(rules.FingerprintVersion))
	c.appendHashes(w, f)
	c.appendKey(w)
	w.Value("labels", c.Labels)
	c.Producer.append(w)
	w.Text("project", f.Project)
	w.Texts("route", f.Passages)
	w.Text("run_id", c.RunID)
	w.Text("timestamp", c.Timestamp)
	w.Close()
}

func (f *PathFields) appendHashes(w *pyjson.Builder) {
	w.Nullable("content_fingerprint", f.ContentFingerprint)
	w.Nullable("path_id", f.PathID)
	w.Nullable("raw_content_fingerprint", f.RawContentFingerprint)
}
