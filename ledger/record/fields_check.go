package record

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// forms checks the forms of members, and keeps what is wrong first. Lengths are in bytes.
type forms struct{ err error }

func (f *forms) fail(name string, text []byte, what string) {
	if f.err == nil {
		f.err = fmt.Errorf("its %s is %.100q, which %s", name, text, what)
	}
}

// text is a text that may be left out; nil is.
func (f *forms) text(name string, text []byte, most int) {
	if len(text) > most {
		f.fail(name, text, "is longer than the API allows")
	}
}

// required is a text that may be empty.
func (f *forms) required(name string, text []byte, most int) {
	if text == nil && f.err == nil {
		f.err = fmt.Errorf("it lacks the member %q, or that is of another type", name)
	}
	f.text(name, text, most)
}

// filled is a text that is neither left out nor empty.
func (f *forms) filled(name string, text []byte, most int) {
	f.required(name, text, most)
	if text != nil && len(text) == 0 {
		f.fail(name, text, "is empty")
	}
}

// hash is a SHA-256; nil is none.
func (f *forms) hash(name string, digits []byte) {
	if digits != nil && !rules.IsDigest(digits) {
		f.fail(name, digits, "is no SHA-256 in hexadecimal digits")
	}
}

func (f *forms) requiredHash(name string, digits []byte) {
	f.required(name, digits, len(digits))
	f.hash(name, digits)
}

// integer is in plain decimal; nil is none.
func (f *forms) integer(name string, raw []byte) {
	digits, _ := bytes.CutPrefix(raw, []byte("-"))
	ok := len(digits) > 0 && (digits[0] != '0' || len(raw) == 1)
	for _, c := range digits {
		ok = ok && '0' <= c && c <= '9'
	}
	if raw != nil && !ok {
		f.fail(name, raw, "is no integer in plain decimal")
	}
}

// count is an integer that is not negative; nil is none.
func (f *forms) count(name string, raw []byte) {
	f.integer(name, raw)
	if len(raw) > 0 && raw[0] == '-' {
		f.fail(name, raw, "is negative")
	}
}

// Check reports what records of no kind can say.
func (c *CommonFields) Check() error {
	for i := range c.Contents {
		switch named := &c.Contents[i]; {
		case !rules.IsDigest(named.Digest):
			return fmt.Errorf("its content %.100q has as sha256 %.100q, which is no SHA-256 in hexadecimal digits", named.Name, named.Digest)
		case (named.Size == 0) != bytes.Equal(named.Digest, emptyDigest):
			return fmt.Errorf("its content %.100q has the size %d, which is not that of its digest %s", named.Name, named.Size, named.Digest)
		}
	}
	if c.Timestamp != nil {
		if _, ok := ParseTime(c.Timestamp); !ok || len(c.Timestamp) > MaxTimestamp {
			return fmt.Errorf("its timestamp %.100q is not RFC 3339", c.Timestamp)
		}
	}
	for name, value := range c.Labels.Members() {
		if value.Kind() != pyjson.String || len(name.Text()) == 0 {
			return fmt.Errorf("its label %.100q is %.100s", name.Text(), value.Raw())
		}
	}
	var f forms
	if c.RunID != nil {
		f.filled("run_id", c.RunID, MaxName)
	}
	if c.Producer.ID != nil || c.Producer.Seq != nil {
		f.filled("producer's id", c.Producer.ID, maxProducer)
		f.required("producer's seq", c.Producer.Seq, len(c.Producer.Seq))
		f.count("producer's seq", c.Producer.Seq)
		if !isProducerSeq(c.Producer.Seq) {
			f.fail("producer's seq", c.Producer.Seq, "is too large")
		}
	}
	return f.err
}

// Check implements Fields.
func (f *IPCFields) Check() error {
	var c forms
	c.requiredHash("input_hash", f.InputHash)
	c.hash("ipc_id", f.IPCID)
	c.hash("ipc_id_advanced", f.IPCIDAdvanced)
	c.hash("output_hash", f.OutputHash)
	c.hash("system_prompt_hash", f.SystemPromptHash)
	c.text("host_platform", f.HostPlatform, maxName)
	c.text("model_digest", f.ModelDigest, maxName)
	c.text("ollama_build_hash", f.OllamaBuildHash, maxName)
	c.required("max_tokens", f.MaxTokens, len(f.MaxTokens))
	c.count("max_tokens", f.MaxTokens)
	c.required("model", f.Model, maxName)
	c.integer("seed", f.Seed)
	c.required("temperature", f.Temperature, len(f.Temperature))
	if f.Temperature != nil && !pyjson.IsCanonicalFloat(f.Temperature) {
		c.fail("temperature", f.Temperature, "is no double as events have them")
	}
	if f.PayloadSchema != nil && string(f.PayloadSchema) != rules.AxisPayload {
		c.fail("payload_schema", f.PayloadSchema, "is unknown")
	}
	if f.Usage.Kind() != pyjson.Absent && !IsUsage(f.Usage) {
		c.fail("usage", f.Usage.Raw(), "is more than figures")
	}
	return c.err
}

// Check implements Fields.
func (f *RunFields) Check() error {
	var c forms
	c.requiredHash("root", f.Root)
	for _, name := range runHashes {
		c.hash(name, *f.Hash(name))
	}
	for _, s := range f.Stages {
		c.required("stage", s.Name, maxStage)
		c.requiredHash("hash of a stage", s.Hash)
	}
	c.text("answer_mode", f.AnswerMode, maxName)
	c.text("audit_mode", f.AuditMode, maxName)
	c.text("lookup_path", f.LookupPath, maxName)
	c.text("verifier_method", f.VerifierMethod, maxName)
	c.count("n_quotes", f.Quotes)
	c.count("n_sources", f.Sources)
	c.count("n_verified", f.Verified)
	c.required("preflight", f.Preflight, maxName)
	c.required("shape", f.Shape, maxName)
	if len(f.Dimensions) == 0 {
		return c.err
	}
	for i, name := range rules.Dimensions {
		value, given := f.Dimension(name)
		switch {
		case !given && i < len(rules.Dimensions)-1:
			c.required("cache_dimensions/"+name, nil, 0)
		case rules.IsVersion(name):
			c.text("cache_dimensions/"+name, value, maxName)
		case given:
			c.requiredHash("cache_dimensions/"+name, value)
		}
	}
	return c.err
}

// Check implements Fields.
func (f *SetFields) Check() error {
	var c forms
	c.required("subject", f.Subject, maxName)
	for i, citation := range f.Citations {
		name := func(member string) string { return fmt.Sprintf("%s%d/%s", citationsPrefix, i, member) }
		if !rules.IsChunkHash(citation.ChunkHash) {
			c.fail(name("chunk_hash"), citation.ChunkHash, "is no chunk's hash")
		}
		c.required("source_id", citation.SourceID, maxName)
		c.text("section", citation.Section, maxName)
		if !isWeight(citation.Weight) {
			c.fail(name("weight"), citation.Weight, "is no number from 0 to 1 as events have them")
		}
	}
	return c.err
}

// isWeight reports whether a text is a canonical number from 0 to 1.
func isWeight(raw []byte) bool {
	switch string(raw) {
	case "0", "1", "0.0", "1.0", "-0.0":
		return true
	}
	return bytes.HasPrefix(raw, []byte("0.")) && pyjson.IsCanonicalFloat(raw) ||
		bytes.Contains(raw, []byte("e-")) && raw[0] != '-' && pyjson.IsCanonicalFloat(raw)
}

// Check implements Fields.
func (f *PathFields) Check() error {
	var c forms
	c.required("project", f.Project, maxName)
	c.text("build", f.Build, maxName)
	for _, passage := range f.Passages {
		c.text("route", passage, maxName)
	}
	if !rules.IsPathID(f.PathID) {
		c.fail("path_id", f.PathID, "is none")
	}
	for _, fingerprint := range [...][]byte{f.ContentFingerprint, f.RawContentFingerprint} {
		if fingerprint != nil && !rules.IsDigits(fingerprint, rules.FingerprintDigits) {
			c.fail("fingerprint", fingerprint, "is none")
		}
	}
	return c.err
}

// Check implements Fields.
func (f *StateFields) Check() error {
	var c forms
	c.filled("reason", f.Reason, MaxReason)
	c.required("state", f.State, maxStage)
	return c.err
}

// Check implements Fields.
func (f *ValidationFields) Check() error {
	var c forms
	c.required("path_id", f.PathID, maxName)
	c.required("project", f.Project, maxName)
	c.text("reason", f.Reason, MaxReason)
	return c.err
}

// Check implements Fields.
func (f *SourceFields) Check() error {
	var c forms
	c.filled("source_id", f.ID, MaxSourceID)
	c.text("title", f.Title, maxTitle)
	c.text("reason", f.Reason, MaxReason)
	listed := make(map[string]bool, len(f.ChunkHashes))
	for _, chunk := range f.ChunkHashes {
		if !rules.IsChunkHash(chunk) || listed[string(chunk)] {
			c.fail("list of chunks", chunk, "is no chunk's hash or is there twice")
		}
		listed[string(chunk)] = true
	}
	return c.err
}

// Check implements Fields.
func (f *RedactionFields) Check() error {
	var c forms
	c.filled("reason", f.Reason, MaxReason)
	if f.Seqs == nil {
		c.fail("seqs", nil, "is no list of records")
	}
	return c.err
}

// Check implements Fields.
func (f *RotationFields) Check() error {
	var c forms
	for name, text := range map[string][]byte{"step": f.Step, "previous_key": f.PreviousKey, "verifier_key": f.VerifierKey} {
		c.required(name, text, MaxEntry)
	}
	return c.err
}

// Check implements Fields.
func (f *CreatedFields) Check() error {
	var c forms
	c.required("origin", f.Origin, MaxEntry)
	c.required("verifier_key", f.VerifierKey, MaxEntry)
	return c.err
}

// Check implements Fields.
func (f *RefusalFields) Check() error {
	if f.Reason != RefusedKey && f.Reason != RefusedMismatch {
		return fmt.Errorf("its reason is %.100q, which is none", f.Reason)
	}
	return nil
}

// emptyDigest is the SHA-256 of nothing, in hexadecimal digits.
var emptyDigest = rules.AppendHex(nil, sha256.Sum256(nil))
