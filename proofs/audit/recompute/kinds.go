package recompute

import (
	"bytes"
	"strconv"

	"colophon/ledger/record"
	"colophon/ledger/record/fields"
	"colophon/ledger/record/rules"
	"colophon/proofs"
)

// checkIPC checks an IPC record (spec: IPC record).
func (c *Checker) checkIPC() error {
	r := &c.IPC
	if r.PayloadSchema != nil && c.HasContent("payload") && r.Seed == nil {
		return malformed("the event's payload has the schema %s, but the event has no seed", rules.AxisPayloadSchema)
	}
	if c.HasContent("usage") && r.Usage.IsGiven() {
		return malformed("the event and its content both contain the usage, but only one of them may")
	}
	if s := r.SeedlessInputHash; s != nil && (!r.HasPayload || r.Seed == nil || bytes.Equal(s, r.InputHash)) {
		return wrongField("seedless_input_hash", "the hash is %.100s, although no payload can have both this hash and the run's seed", s)
	}
	if r.MemberDigests != nil && !r.HasPayload {
		return wrongField("payload_members", "the event has digests of payload members, but no payload")
	}
	err := c.all(
		field{name: "input_hash", effective: r.InputHash, origin: c.originOf("payload")},
		field{name: "system_prompt_hash", effective: r.SystemPromptHash, origin: c.originOf("system_prompt")},
		field{name: "output_hash", effective: r.OutputHash, origin: c.originOf("output")},
		c.chainField("ipc_id", r.IPCID),
	)
	if err != nil {
		return err
	}
	advanced := c.chainField("ipc_id_advanced", r.IPCIDAdvanced, r.OllamaBuildHash, r.ModelDigest, r.HostPlatform)
	if err := c.all(advanced); err != nil {
		return err
	}
	if r.HasIPCIDAdvanced && c.CheckByName(advanced.name) == nil {
		return wrongField(advanced.name, "the event has this hash, but no check for it")
	}
	return nil
}

// chainField returns the field for ipc_id, or for a hash that also covers the values in more. The
// recomputed hash is valid until the next call. The hash is withheld if the event has no output
// hash or no system prompt hash. If the event lacks any other value that the hash covers, the hash
// is treated as a claim.
func (c *Checker) chainField(name string, effective []byte, more ...[]byte) field {
	r := &c.IPC
	f := field{name: name, effective: effective, origin: claimed}
	if r.OutputHash == nil || r.SystemPromptHash == nil {
		f.withheld = true
		return f
	}
	c.parts = append(c.parts[:0], r.InputHash, r.SystemPromptHash, r.Model, r.Temperature, r.MaxTokens, r.Seed)
	c.parts = append(c.parts, more...)
	for _, part := range c.parts {
		if part == nil {
			return f
		}
	}
	var id proofs.Hash
	id, c.joined = rules.IPCID(c.joined, c.parts...)
	c.id = rules.AppendHex(c.id[:0], id)
	f.origin, f.recomputed = computed, c.id
	return f
}

// checkCitations checks a citation set (spec: Citation set).
func (c *Checker) checkCitations() error {
	texts := 0
	for i, citation := range c.CitationSet.Citations {
		name := "citations/" + strconv.Itoa(i)
		from := c.originOf(name + "/text")
		if from == computed {
			texts++
		}
		if err := c.all(field{name: name + "/chunk_hash", effective: citation.ChunkHash, origin: from, form: rules.IsChunkHash}); err != nil {
			return err
		}
	}
	if n := len(c.Common.Contents); n != texts {
		return malformed("the event names %d pieces of content, but only %d of them are texts of citations", n, texts)
	}
	return nil
}

// checkPath checks a path fingerprint (spec: Path fingerprint).
func (c *Checker) checkPath() error {
	r := &c.PathFingerprint
	id := r.PathID
	if check := c.CheckByName("path_id"); check != nil && check.Result == record.ResultComputed && len(id) != rules.PathIDDigits {
		return wrongField("path_id", "the path_id has %d digits, but only a claimed path_id can have that length", len(id))
	}
	content := claimed
	if string(r.HashVersion) == rules.FingerprintVersion {
		content = c.originOf("content")
	}
	form := func(text []byte) bool { return rules.IsFingerprintForVersion(string(r.HashVersion), text) }
	return c.all(
		field{name: "path_id", effective: id, origin: computed, recomputed: rules.RouteDigest(r.Passages)[:len(id)], form: hexForm(len(id))},
		field{name: "content_fingerprint", effective: r.ContentFingerprint, origin: content, form: form},
		field{name: "raw_content_fingerprint", effective: r.RawContentFingerprint, origin: content, form: form},
	)
}

// checkAction checks the event that an action created (spec: States; Path validation; Sources;
// Redactions).
func (c *Checker) checkAction(f fields.Action) error {
	if want := fields.RequestDigest(f); want != c.Common.Digest {
		return wrongField("digest", "the event has the digest %x, but its request has the digest %x", c.Common.Digest, want)
	}
	if c.Kind == record.KindSourceRevoked && (c.Source.HasChunkList || c.Source.Title != nil) {
		return malformed("the event revokes a source, but has members other than \"source_id\" and \"reason\"")
	}
	return nil
}
