package audit

import (
	"colophon/ledger/record/rules"
	"colophon/proofs"
)

// checkIPC checks an IPC record (spec: IPC record).
func (w *walk) checkIPC(c *claims) error {
	e, f := c.e, &c.e.IPC
	if f.PayloadSchema != nil && e.HasContent("payload") && f.Seed == nil {
		return e.damaged("its payload is of the schema %s, but it has no seed", rules.AxisPayload)
	}
	if e.HasContent("usage") && f.Usage.Given() {
		return e.damaged("its usage stands in the event and is content too")
	}
	for _, f := range [...]field{
		{name: "input_hash", effective: f.InputHash, from: e.from("payload")},
		{name: "system_prompt_hash", effective: f.SystemPromptHash, from: e.from("system_prompt")},
		{name: "output_hash", effective: f.OutputHash, from: e.from("output")},
	} {
		if err := c.check(f); err != nil {
			return err
		}
	}
	if err := c.check(w.chainField(e, "ipc_id", f.IPCID)); err != nil {
		return err
	}
	advanced := w.chainField(e, "ipc_id_advanced", f.IPCIDAdvanced, f.OllamaBuildHash, f.ModelDigest, f.HostPlatform)
	if err := c.check(advanced); err != nil {
		return err
	}
	if f.HasAdvanced && e.CheckOf(advanced.name) == nil {
		return checkDamaged(e.seq, advanced.name, "its hash is there, but no check of it")
	}
	return nil
}

// chainField is the field of an ipc_id, or of one that covers more, until the next is made. It is
// withheld where the chain is incomplete, and a claim where not all that it covers is known.
func (w *walk) chainField(e *decoded, name string, effective []byte, more ...[]byte) field {
	r := &e.IPC
	f := field{name: name, effective: effective, from: claimed}
	if r.OutputHash == nil || r.SystemPromptHash == nil {
		f.withheld = true
		return f
	}
	parts := append(w.parts[:0], r.InputHash, r.SystemPromptHash, r.Model, r.Temperature, r.MaxTokens, r.Seed)
	parts = append(parts, more...)
	w.parts = parts
	for _, part := range parts {
		if part == nil {
			return f
		}
	}
	var id proofs.Hash
	id, w.joined = rules.ChainID(w.joined, parts...)
	w.id = rules.AppendHex(w.id[:0], id)
	f.from, f.recomputed = computed, w.id
	return f
}
