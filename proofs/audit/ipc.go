package audit

import (
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/proofs"
)

// Places in ipcMembers.
const (
	ipcContent = iota
	ipcDigest
	ipcEnvironment
	ipcHashes
	ipcKey
	ipcLabels
	ipcMaxTokens
	ipcModel
	ipcPayloadSchema
	ipcProducer
	ipcRunID
	ipcSeed
	ipcTemperature
	ipcTimestamp
	ipcUsage
)

// ipcMembers are the members of an IPC record.
var ipcMembers = [...]member{
	ipcContent: {"content", object, sometimes}, ipcDigest: {"digest", digestText, always}, ipcEnvironment: {"environment", object, sometimes},
	ipcHashes: {"hashes", object, always}, ipcKey: {"idempotency_key", digestText, sometimes}, ipcLabels: {"labels", object, sometimes},
	ipcMaxTokens: {"max_tokens", natural, always}, ipcModel: {"model", nameText, always}, ipcPayloadSchema: {"payload_schema", text, sometimes},
	ipcProducer: {"producer", object, sometimes}, ipcRunID: {"run_id", identifier, sometimes}, ipcSeed: {"seed", integer, sometimes},
	ipcTemperature: {"temperature", float, always}, ipcTimestamp: {"timestamp", text, sometimes}, ipcUsage: {"usage", object, sometimes},
}

// Places in ipcHashMembers.
const (
	inputHash = iota
	idHash
	advancedHash
	outputHash
	systemPromptHash
)

// Places in environmentMembers.
const (
	hostPlatform = iota
	modelDigest
	buildHash
)

var (
	ipcHashMembers = [...]member{inputHash: {"input_hash", digestText, always}, idHash: {"ipc_id", nullableDigest, always}, advancedHash: {"ipc_id_advanced", nullableDigest, sometimes},
		outputHash: {"output_hash", nullableDigest, always}, systemPromptHash: {"system_prompt_hash", nullableDigest, always}}
	ipcContents        = [...]member{{"output", object, sometimes}, {"payload", object, sometimes}, {"system_prompt", object, sometimes}, {"usage", object, sometimes}}
	environmentMembers = [...]member{hostPlatform: {"host_platform", nameText, sometimes}, modelDigest: {"model_digest", nameText, sometimes},
		buildHash: {"ollama_build_hash", nameText, sometimes}}
)

// checkIPC checks an IPC record (1.3).
func (w *walk) checkIPC(e *event) error {
	var m [len(ipcMembers)]pyjson.Value
	if err := e.members("its record", e.record, ipcMembers[:], m[:]); err != nil {
		return err
	}
	content, hashes := m[ipcContent], m[ipcHashes]
	var h [len(ipcHashMembers)]pyjson.Value
	var env [len(environmentMembers)]pyjson.Value
	err := e.members("its hashes", hashes, ipcHashMembers[:], h[:])
	if err == nil && m[ipcEnvironment].Kind() != pyjson.Absent {
		err = e.members("its environment", m[ipcEnvironment], environmentMembers[:], env[:])
	}
	if err == nil {
		err = w.checkCommon(e, common{m[ipcContent], m[ipcDigest], m[ipcKey], m[ipcLabels], m[ipcProducer], m[ipcRunID], m[ipcTimestamp]}, ipcContents[:])
	}
	if err != nil {
		return err
	}
	switch schema := m[ipcPayloadSchema]; {
	case schema.Kind() == pyjson.Absent:
	case string(schema.Text()) != rules.AxisPayload:
		return e.damaged("its payload_schema is %.100q, known is %q", schema.Text(), rules.AxisPayload)
	case has(content, "payload") == computed && m[ipcSeed].Kind() == pyjson.Absent:
		return e.damaged("its payload is of the schema %s, but it has no seed", rules.AxisPayload)
	}
	if usage := m[ipcUsage]; usage.Kind() != pyjson.Absent {
		if !record.IsUsage(usage) {
			return e.damaged("its usage is more than figures: %.100s", usage.Raw())
		}
		if has(content, "usage") == computed {
			return e.damaged("its usage stands in the event and is content too")
		}
	}
	c := claims{e: e}
	for _, f := range [...]field{
		{name: "input_hash", effective: hash(h[inputHash]), from: has(content, "payload")},
		{name: "system_prompt_hash", effective: hash(h[systemPromptHash]), from: has(content, "system_prompt")},
		{name: "output_hash", effective: hash(h[outputHash]), from: has(content, "output")},
	} {
		if err := c.check(f); err != nil {
			return err
		}
	}
	if err := c.check(w.ipcID(m, h, "ipc_id", h[idHash])); err != nil {
		return err
	}
	if err := c.check(w.ipcID(m, h, "ipc_id_advanced", h[advancedHash], env[buildHash], env[modelDigest], env[hostPlatform])); err != nil {
		return err
	}
	return c.done()
}

// ipcID is the field of an ipc_id, or of one that covers more, until the next is made. It is withheld where
// the chain is incomplete, and a claim where not all that it covers is known.
func (w *walk) ipcID(m [len(ipcMembers)]pyjson.Value, h [len(ipcHashMembers)]pyjson.Value, name string, effective pyjson.Value, more ...pyjson.Value) field {
	f := field{name: name, effective: hash(effective), from: claimed}
	if h[outputHash].Kind() == pyjson.Null || h[systemPromptHash].Kind() == pyjson.Null {
		f.withheld = true
		return f
	}
	model, temperature, tokens, seed := m[ipcModel], m[ipcTemperature], m[ipcMaxTokens], m[ipcSeed]
	if seed.Kind() == pyjson.Absent {
		return f
	}
	parts := append(w.parts[:0], h[inputHash].Text(), h[systemPromptHash].Text(), model.Text(), temperature.Raw(), tokens.Raw(), seed.Raw())
	for _, v := range more {
		if v.Kind() == pyjson.Absent {
			return f
		}
		parts = append(parts, v.Text())
	}
	var id proofs.Hash
	id, w.joined = rules.ChainID(w.joined, parts...)
	w.parts, w.id = parts, rules.AppendHex(w.id[:0], id)
	f.from, f.recomputed = computed, w.id
	return f
}
