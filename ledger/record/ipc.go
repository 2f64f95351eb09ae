package record

import (
	"bytes"
	"crypto/sha256"
	"slices"

	"colophon/ledger/record/fields"
	"colophon/ledger/record/members"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/ledger/record/strict"
)

// MissingPartsJSON returns the names of the parts that an IPC record lacks (spec: Receipts), as a
// JSON array in the form that its receipt uses. It returns nil if the record is complete or is of
// another kind.
func MissingPartsJSON(r *Record) []byte {
	f, ok := r.fields.(*fields.IPC)
	if !ok {
		return nil
	}
	var list []byte
	for name := range f.MissingParts() {
		list = append(append(append(list, ',', '"'), name...), '"')
	}
	if list != nil {
		list[0] = '['
		list = append(list, ']')
	}
	return list
}

// ipc is an IPC record that is being decoded.
type ipc struct {
	fields.IPC
	r *Record
	// seedInPayload is true if the payload has a seed of its own that is also the run's seed.
	seedInPayload bool
}

// ipcHints maps the member names that similar APIs use to advice on where to put the values in an
// IPC record.
var ipcHints = func() map[string]string {
	hints := make(map[string]string)
	add := func(hint string, names ...string) {
		for _, name := range names {
			hints[name] = hint
		}
	}
	add(`put everything that affects the output into the payload, for example {"payload": {"messages": […], "top_p": 0.9}}`,
		"messages", "prompt", "input", "contents", "top_p", "top_k", "min_p", "n", "stop", "stop_sequences", "presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias",
		"response_format", "reasoning", "reasoning_effort", "thinking", "tools", "tool_choice", "functions", "function_call", "parallel_tool_calls")
	add(`put the value into labels as a string, for example {"labels": {"user": "…"}}`,
		"user", "metadata", "tags", "name", "service", "session_id", "conversation_id", "user_id", "trace_id", "span_id", "project", "provider", "finish_reason")
	add(`use the member "max_tokens" instead`, "max_completion_tokens", "max_output_tokens", "max_new_tokens", "num_predict")
	add(`use the member "system_prompt" instead, with a string value`, "system", "instructions", "system_instruction")
	add(`use the member "output" instead, with a string value`, "completion", "response", "answer", "text", "outputs", "choices")
	add(`use the member "timestamp" instead, in RFC 3339 format`, "created", "created_at", "time", "start_time")
	add(`use the member "run_id" instead`, "id", "request_id")
	add("this member is allowed only in a line of /batch; send only the record, or send the line to /batch", "kind", "record")
	add("send the key in the Idempotency-Key header", "idempotency_key")
	return hints
}()

// payloadForm describes what a payload must be, for use in an error message. If v is an array or a
// text, the description also says how to write v as a payload.
func payloadForm(v pyjson.Value) string {
	switch v.Kind() {
	case pyjson.Array:
		return `an object; write a list of messages as {"messages": […]}`
	case pyjson.String:
		return `an object; write a prompt as {"prompt": "…"}`
	}
	return "an object"
}

// decodeIPC decodes an IPC record, computes its hashes (spec: IPC hashes), and checks the claims.
func (r *Record) decodeIPC(d *strict.Decoder, v pyjson.Value, pointer string) {
	d.Hints = ipcHints
	o := d.Object(v, pointer, "run_id", "payload", "input_hash", "payload_schema", "system_prompt",
		"system_prompt_hash", "output", "output_hash", "model", "temperature", "max_tokens", "seed", "ipc_id",
		"ipc_id_advanced", "environment", "usage", "timestamp", "labels", "producer")
	d.Hints = nil
	r.decodeCommon(o)
	p := &r.ipc
	*p = ipc{r: r}
	r.fields = &p.IPC
	p.Model = o.RequiredText("model", maxName)
	p.MaxTokens = r.readInteger(o, "max_tokens", true)
	p.decodeTemperature(o)
	p.decodeSeed(o)
	p.decodeEnvironment(o)
	p.decodeUsage(o)

	input := r.check("input_hash", o.Hash("input_hash"), p.inputHash(o))
	prompt := r.check("system_prompt_hash", o.Hash("system_prompt_hash"),
		r.normalisedHash(o, "system_prompt", rules.AppendNormalisedSystemPrompt))
	output := r.check("output_hash", o.Hash("output_hash"), r.normalisedHash(o, "output", rules.AppendNormalisedOutput))
	id, advanced := o.Hash("ipc_id"), o.Hash("ipc_id_advanced")
	if d.HasProblems() {
		return
	}
	p.InputHash, p.SystemPromptHash, p.OutputHash = input, prompt, output
	p.identify(prompt != nil && output != nil, id, advanced, input, prompt)
}

// identify computes and checks ipc_id and ipc_id_advanced. complete says whether the record has a
// system prompt and an output. If complete is false, both ids are null, and only the checks contain
// the claims (spec: IPC hashes).
func (p *ipc) identify(complete bool, id, advanced, input, prompt []byte) {
	r := p.r
	var computed, computedAdvanced []byte
	if complete && p.Temperature != nil && p.MaxTokens != nil && p.Seed != nil {
		computed = r.chainID(input, prompt, p.Model, p.Temperature, p.MaxTokens, p.Seed)
		if build, model, platform := p.OllamaBuildHash, p.ModelDigest, p.HostPlatform; build != nil && model != nil && platform != nil {
			computedAdvanced = r.chainID(input, prompt, p.Model, p.Temperature, p.MaxTokens, p.Seed, build, model, platform)
		}
	}
	p.IPCID = r.checkChain("ipc_id", id, computed, complete)
	p.HasIPCIDAdvanced = advanced != nil || computedAdvanced != nil
	p.IPCIDAdvanced = r.checkChain("ipc_id_advanced", advanced, computedAdvanced, complete)
}

// chainID computes an ipc_id from its parts and returns it in hexadecimal.
func (r *Record) chainID(parts ...[]byte) (id []byte) {
	var sum Hash
	sum, r.scratch = rules.IPCID(r.scratch, parts...)
	return r.hex(sum)
}

// checkChain checks ipc_id or ipc_id_advanced and returns the effective hash, which is nil if
// complete is false.
func (r *Record) checkChain(name string, claimed, computed []byte, complete bool) []byte {
	effective := r.check(name, claimed, computed)
	if complete || claimed == nil {
		return effective
	}
	r.Checks[len(r.Checks)-1].Claimed = claimed // recorded here because no effective hash contains the claim
	return nil
}

func (p *ipc) decodeTemperature(o strict.Object) {
	if value, given := o.Float64("temperature"); given {
		p.r.scratch = pyjson.AppendFloat(p.r.scratch[:0], value)
		p.Temperature = p.r.keep(p.r.scratch)
	}
}

// decodeSeed decodes the record's seed or, if it is missing, the payload's.
func (p *ipc) decodeSeed(o strict.Object) {
	payload := o.Member("payload")
	if p.Seed = p.r.readInteger(o, "seed", false); p.Seed != nil || o.Member("seed").IsGiven() {
		if own := AppendPayloadSeed(p.r.scratch[:0], payload, string(o.Member("payload_schema").Text())); p.Seed != nil && bytes.Equal(p.Seed, own) {
			p.r.implied, p.seedInPayload = "seed", true
		}
		return
	}
	if payload.Kind() == pyjson.Object {
		inner := o.InnerObject("payload", payload)
		if string(o.Text("payload_schema", maxName)) == rules.AxisPayloadSchema {
			p.Seed = p.r.readAxisSeed(inner)
		} else {
			p.Seed = p.r.readInteger(inner, "seed", false)
		}
		p.seedInPayload = p.Seed != nil
	}
}

// AppendPayloadSeed appends the payload's seed in decimal to dst. A record without a seed of its
// own uses this seed. AppendPayloadSeed appends nothing if the payload has no seed. schema is the
// record's payload_schema, or "".
func AppendPayloadSeed(dst []byte, payload pyjson.Value, schema string) []byte {
	seed := payload.Member("seed")
	if schema == rules.AxisPayloadSchema && seed.Kind() == pyjson.Float {
		return append(dst, new(Record).readAxisSeed(strict.Object{Decoder: new(strict.Decoder), Value: payload})...)
	}
	dst, _ = seed.AppendInteger(dst)
	return dst
}

func (p *ipc) decodeEnvironment(o strict.Object) {
	v := o.Member("environment")
	if !v.IsGiven() {
		return
	}
	e := o.Decoder.Object(v, o.MemberPointer("environment"), rules.EnvironmentMembers[:]...)
	p.OllamaBuildHash, p.ModelDigest, p.HostPlatform = e.Text("ollama_build_hash", maxName), e.Text("model_digest", maxName), e.Text("host_platform", maxName)
}

// inputHash returns the hash of the payload in spaced canonical JSON, or nil if there is no
// payload. It also sets SeedlessInputHash.
func (p *ipc) inputHash(o strict.Object) []byte {
	r := p.r
	payload := o.MemberOfKind("payload", pyjson.Object, payloadForm(o.Member("payload")))
	o.CheckUTF8("payload", payload)
	o.CheckConstant("payload_schema", rules.AxisPayloadSchema)
	p.PayloadSchema = o.Text("payload_schema", maxName)
	if !payload.IsGiven() {
		if !o.Member("payload").IsGiven() && !o.Member("input_hash").IsGiven() {
			o.ReportInvalid("payload", "is required if input_hash is not given")
		}
		return nil
	}
	r.addContent("payload", payload.Raw())
	p.HasPayload = true
	var sum, seedless Hash
	digests := members.Builder{Secret: r.limits.PayloadMemberSecret, Buffer: r.members[:0]}
	if p.PayloadSchema != nil {
		var ok bool
		if sum, seedless, ok = r.axisPayloadHashes(o, payload, p.seedInPayload, digests.MemberVisitor()); !ok {
			return nil
		}
	} else {
		sum, seedless, r.scratch = rules.PayloadHashes(r.scratch, payload, p.seedInPayload, digests.MemberVisitor())
	}
	if p.seedInPayload {
		p.SeedlessInputHash = r.hex(seedless)
	}
	p.MemberDigests = digests.Finish()
	r.members = digests.Buffer
	return r.hex(sum)
}

// normalisedHash adds the named text to the content and returns the hash of its normal form, which
// rule computes (spec: IPC hashes). It returns nil if there is no such text.
func (r *Record) normalisedHash(o strict.Object, name string, rule func(dst, text []byte) []byte) []byte {
	text, given := o.UTF8(name)
	if !given {
		return nil
	}
	digest := r.addContent(name, text)
	r.scratch = rule(slices.Grow(r.scratch[:0], len(text)), text)
	if !bytes.Equal(r.scratch, text) {
		digest = sha256.Sum256(r.scratch)
	}
	return r.hex(digest)
}

// decodeUsage decodes the usage member, which no hash covers. If the value cannot be part of an
// event, it becomes content instead.
func (p *ipc) decodeUsage(o strict.Object) {
	usage := o.MemberOfKind("usage", pyjson.Object, "an object")
	o.CheckUTF8("usage", usage)
	switch {
	case !usage.IsGiven():
	case p.isFigures(usage):
		p.Usage = usage
	default:
		p.r.addContent("usage", usage.Raw())
	}
}

// isFigures reports whether usage can be part of an event: it contains no text, and its canonical
// JSON is at most fields.MaxUsageBytes bytes long.
func (p *ipc) isFigures(usage pyjson.Value) bool {
	if !fields.HasNoText(usage) {
		return false
	}
	p.r.scratch = usage.AppendCanonical(p.r.scratch[:0], pyjson.CompactForm)
	return len(p.r.scratch) <= fields.MaxUsageBytes
}
