package fields

import (
	"iter"

	"colophon/ledger/record/members"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// IPC holds the fields of an ipc_record event, which describes one generation (IPC: interpretive
// provenance chain). Numbers are in canonical form. Fields that are null or missing are nil (spec:
// IPC hashes).
type IPC struct {
	// InputHash, SystemPromptHash, and OutputHash are the effective hashes of the payload, the system
	// prompt, and the generated text.
	InputHash, SystemPromptHash, OutputHash []byte
	// IPCID covers InputHash, SystemPromptHash, Model, Temperature, MaxTokens, and Seed, but not
	// OutputHash.
	IPCID []byte
	// SeedlessInputHash is nil if the payload does not contain the run's seed (spec: Seedless
	// hash).
	SeedlessInputHash []byte
	// HasPayload is true if the record contained the payload itself, not just its hash. The event
	// then lists the payload among its content.
	HasPayload bool
	// MemberDigests holds the digests of the payload members. It is nil if there is no payload, or if the
	// ledger has no secret for them.
	MemberDigests members.Digests
	// IPCIDAdvanced is like IPCID, but also covers the environment (OllamaBuildHash, ModelDigest,
	// and HostPlatform). It is nil if the hash is null or missing.
	IPCIDAdvanced []byte
	// HasIPCIDAdvanced is true if the event has the member ipc_id_advanced, even if it is null.
	HasIPCIDAdvanced bool

	Model       []byte // name of the model
	Temperature []byte // sampling temperature, as a JSON number
	MaxTokens   []byte // maximum length of the output, as a JSON number
	Seed        []byte // seed of the sampling, as a JSON number

	// OllamaBuildHash is the build of the model's runtime, ModelDigest is the digest of the model's
	// weights, and HostPlatform is the machine with its operating system.
	OllamaBuildHash, ModelDigest, HostPlatform []byte

	PayloadSchema []byte       // rules.AxisPayloadSchema, or nil if none was given
	Usage         pyjson.Value // Absent if usage was not given or is stored as content
}

// IsRun reports whether the record is a run, that is, whether it has both an input and an output
// (spec: Runs).
func (f *IPC) IsRun() bool { return f.InputHash != nil && f.OutputHash != nil }

// MissingParts yields the names of the parts that an ipc_id requires but the record lacks (spec:
// Receipts).
func (f *IPC) MissingParts() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i, value := range [...][]byte{f.InputHash, f.SystemPromptHash, f.OutputHash, f.Temperature, f.MaxTokens, f.Seed} {
			if value == nil && !yield(IPCParts[i]) {
				return
			}
		}
	}
}

// IPCParts contains the names that IPC.MissingParts can yield, in the same order.
var IPCParts = [...]string{"input", "system_prompt", "output", "temperature", "max_tokens", "seed"}

// InputIdentity returns the hash by which the inputs of runs are compared: the hash of the payload without
// the run's seed or, if that is not known, input_hash (spec: Seedless hash).
func (f *IPC) InputIdentity() []byte {
	if f.SeedlessInputHash != nil {
		return f.SeedlessInputHash
	}
	return f.InputHash
}

// These constants limit the usage data that is written into the event itself, where it can never be
// erased (spec: Usage). This data contains only counts and durations, and no texts except member
// names. All other usage data is stored as content (spec: Content).
const (
	MaxUsageBytes     = 1024 // maximum length of the compact canonical JSON, in bytes
	MaxUsageNameBytes = 64   // maximum length of a member's name in bytes
	MaxUsageDepth     = 64   // maximum nesting depth; deeper usage could not be parsed inside a receipt
)

// isUsage reports whether v, which must be in canonical form, can be written into an event as
// usage.
func isUsage(v pyjson.Value) bool {
	return v.Kind() == pyjson.Object && HasNoText(v) && len(v.Raw()) <= MaxUsageBytes
}

// HasNoText reports whether v contains only numbers, Booleans, nulls, and member names of at most
// MaxUsageNameBytes bytes, with arrays and objects nested at most MaxUsageDepth levels deep.
func HasNoText(v pyjson.Value) bool { return figures(v, MaxUsageDepth) }

func figures(v pyjson.Value, brackets int) bool {
	switch v.Kind() {
	case pyjson.String:
		return false
	case pyjson.Array, pyjson.Object:
		if brackets == 0 {
			return false
		}
	}
	for e := range v.Elements() {
		if !figures(e, brackets-1) {
			return false
		}
	}
	for name, m := range v.Members() {
		if len(name.Text()) > MaxUsageNameBytes || !figures(m, brackets-1) {
			return false
		}
	}
	return true
}

// Check implements Fields.
func (f *IPC) Check() error {
	var c forms
	c.requiredHash("input_hash", f.InputHash)
	c.hash("ipc_id", f.IPCID)
	c.hash("ipc_id_advanced", f.IPCIDAdvanced)
	c.hash("output_hash", f.OutputHash)
	c.hash("seedless_input_hash", f.SeedlessInputHash)
	c.hash("system_prompt_hash", f.SystemPromptHash)
	c.text("host_platform", f.HostPlatform, MaxNameBytes)
	c.text("model_digest", f.ModelDigest, MaxNameBytes)
	c.text("ollama_build_hash", f.OllamaBuildHash, MaxNameBytes)
	c.count("max_tokens", f.MaxTokens)
	c.required("model", f.Model, MaxNameBytes)
	c.integer("seed", f.Seed)
	if f.Temperature != nil && !pyjson.IsCanonicalFloat(f.Temperature) {
		c.fail("temperature", f.Temperature, "is not a double in canonical form")
	}
	if f.PayloadSchema != nil && string(f.PayloadSchema) != rules.AxisPayloadSchema {
		c.fail("payload_schema", f.PayloadSchema, "is unknown")
	}
	if f.MemberDigests != nil && !f.MemberDigests.IsValid() {
		c.fail("payload_members", f.MemberDigests, "is not a valid set of payload member digests")
	}
	if f.Usage.Kind() != pyjson.Absent && !isUsage(f.Usage) {
		c.fail("usage", f.Usage.Raw(), "contains strings or long names, or is too large for an event")
	}
	return c.err
}

// Append implements Fields.
func (f *IPC) Append(w *pyjson.Builder, c *CommonFields) {
	w.BeginSortedObject()
	c.appendContents(w)
	w.AddDigest("digest", c.Digest)
	if f.OllamaBuildHash != nil || f.ModelDigest != nil || f.HostPlatform != nil {
		w.BeginMember("environment")
		w.BeginSortedObject()
		w.AddText("host_platform", f.HostPlatform)
		w.AddText("model_digest", f.ModelDigest)
		w.AddText("ollama_build_hash", f.OllamaBuildHash)
		w.EndObject()
	}
	c.appendHashes(w, f)
	c.appendKey(w)
	w.AddValue("labels", c.Labels)
	w.AddRaw("max_tokens", f.MaxTokens)
	w.AddText("model", f.Model)
	w.AddRaw("payload_members", f.MemberDigests)
	w.AddText("payload_schema", f.PayloadSchema)
	c.Producer.append(w)
	w.AddText("run_id", c.RunID)
	w.AddRaw("seed", f.Seed)
	w.AddRaw("temperature", f.Temperature)
	w.AddText("timestamp", c.Timestamp)
	w.AddValue("usage", f.Usage)
	w.EndObject()
}

// AppendHashes implements FieldsWithHashes.
func (f *IPC) AppendHashes(w *pyjson.Builder) {
	w.AddUnescapedText("input_hash", f.InputHash)
	w.AddUnescapedText("ipc_id", f.IPCID)
	if f.HasIPCIDAdvanced {
		w.AddUnescapedText("ipc_id_advanced", f.IPCIDAdvanced)
	}
	w.AddUnescapedText("output_hash", f.OutputHash)
	if f.SeedlessInputHash != nil {
		w.AddUnescapedText("seedless_input_hash", f.SeedlessInputHash)
	}
	w.AddUnescapedText("system_prompt_hash", f.SystemPromptHash)
}
