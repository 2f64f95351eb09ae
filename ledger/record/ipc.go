package record

import (
	"bytes"
	"crypto/sha256"
	"slices"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// ipc is an IPC record while it is decoded.
type ipc struct {
	IPCFields
	r *Record
}

// decodeIPC reads an IPC record, recomputes its hashes (spec: IPC hashes) and checks them.
func (r *Record) decodeIPC(d *decoder, v pyjson.Value, pointer string) {
	o := d.object(v, pointer, "run_id", "payload", "input_hash", "payload_schema", "system_prompt",
		"system_prompt_hash", "output", "output_hash", "model", "temperature", "max_tokens", "seed", "ipc_id",
		"ipc_id_advanced", "environment", "usage", "timestamp", "labels", "producer")
	r.decodeCommon(o)
	p := &r.ipc
	*p = ipc{r: r}
	r.fields = &p.IPCFields
	p.Model = o.requiredText("model", maxName)
	p.MaxTokens = o.requiredCount(r, "max_tokens")
	p.decodeTemperature(o)
	p.decodeSeed(o)
	p.decodeEnvironment(o)
	p.decodeUsage(o)

	input := r.check("input_hash", o.hash("input_hash"), p.inputHash(o))
	prompt := r.check("system_prompt_hash", o.hash("system_prompt_hash"),
		r.normalisedHash(o, "system_prompt", rules.AppendSystemPrompt))
	output := r.check("output_hash", o.hash("output_hash"), r.normalisedHash(o, "output", rules.AppendOutput))
	id, advanced := o.hash("ipc_id"), o.hash("ipc_id_advanced")
	if d.failed() {
		return
	}
	p.InputHash, p.SystemPromptHash, p.OutputHash = input, prompt, output
	p.identify(prompt != nil && output != nil, id, advanced, input, prompt)
}

// identify computes and checks ipc_id and ipc_id_advanced. Where the chain is
// incomplete they are null, and a claim stands in the check alone (spec: IPC hashes).
func (p *ipc) identify(complete bool, id, advanced, input, prompt []byte) {
	r := p.r
	var computed, computedAdvanced []byte
	if complete && p.Seed != nil {
		computed = r.chainID(input, prompt, p.Model, p.Temperature, p.MaxTokens, p.Seed)
		if build, model, platform := p.OllamaBuildHash, p.ModelDigest, p.HostPlatform; build != nil && model != nil && platform != nil {
			computedAdvanced = r.chainID(input, prompt, p.Model, p.Temperature, p.MaxTokens, p.Seed, build, model, platform)
		}
	}
	p.IPCID = r.checkChain("ipc_id", id, computed, complete)
	p.HasAdvanced = advanced != nil || computedAdvanced != nil
	p.IPCIDAdvanced = r.checkChain("ipc_id_advanced", advanced, computedAdvanced, complete)
}

// chainID is the hash of the parts of an ipc_id.
func (r *Record) chainID(parts ...[]byte) (id []byte) {
	var sum Hash
	sum, r.scratch = rules.ChainID(r.scratch, parts...)
	return r.hex(sum)
}

// checkChain checks a hash over the whole chain, and gives the effective one.
func (r *Record) checkChain(name string, claimed, computed []byte, complete bool) []byte {
	effective := r.check(name, claimed, computed)
	if complete || claimed == nil {
		return effective
	}
	r.Checks[len(r.Checks)-1].Claimed = claimed // nothing else shows it
	return nil
}

func (p *ipc) decodeTemperature(o object) {
	value, given := o.double("temperature")
	if !o.member("temperature").Given() {
		o.missing("temperature")
	}
	if given {
		p.r.scratch = pyjson.AppendFloat(p.r.scratch[:0], value)
		p.Temperature = p.r.keep(p.r.scratch)
	}
}

// decodeSeed takes the record's seed or, when it has none, the payload's.
func (p *ipc) decodeSeed(o object) {
	payload := o.member("payload")
	if p.Seed = o.integer(p.r, "seed", false); p.Seed != nil || o.member("seed").Given() {
		if own := AppendPayloadSeed(p.r.scratch[:0], payload, string(o.member("payload_schema").Text())); p.Seed != nil && bytes.Equal(p.Seed, own) {
			p.r.implied = "seed"
		}
		return
	}
	if payload.Kind() == pyjson.Object {
		inner := object{o.d, payload, o.at("payload")}
		if string(o.text("payload_schema", maxName)) == rules.AxisPayload {
			p.Seed = inner.axisSeed(p.r)
			return
		}
		p.Seed = inner.integer(p.r, "seed", false)
	}
}

// AppendPayloadSeed appends the seed that a record takes from its payload, in decimal;
// nothing if the payload has none. schema is the record's payload_schema.
func AppendPayloadSeed(dst []byte, payload pyjson.Value, schema string) []byte {
	seed := payload.Member("seed")
	if schema == rules.AxisPayload && seed.Kind() == pyjson.Float {
		return append(dst, object{new(decoder), payload, ""}.axisSeed(new(Record))...)
	}
	dst, _ = seed.AppendInteger(dst)
	return dst
}

func (p *ipc) decodeEnvironment(o object) {
	v := o.member("environment")
	if !v.Given() {
		return
	}
	e := o.d.object(v, o.at("environment"), rules.Environment[:]...)
	p.OllamaBuildHash, p.ModelDigest, p.HostPlatform = e.text("ollama_build_hash", maxName), e.text("model_digest", maxName), e.text("host_platform", maxName)
}

// inputHash hashes the payload in spaced canonical JSON; nil without payload.
func (p *ipc) inputHash(o object) []byte {
	r := p.r
	payload := o.typed("payload", pyjson.Object, "an object")
	o.strictJSON("payload", payload)
	o.constant("payload_schema", rules.AxisPayload)
	p.PayloadSchema = o.text("payload_schema", maxName)
	if !payload.Given() {
		if !o.member("payload").Given() && !o.member("input_hash").Given() {
			o.d.invalid(o.at("payload"), "is required, or input_hash in its place")
		}
		return nil
	}
	r.addContent("payload", payload.Raw())
	if p.PayloadSchema != nil {
		return o.axisPayloadHash(r, payload)
	}
	var sum Hash
	sum, r.scratch = rules.PayloadHash(r.scratch, payload)
	return r.hex(sum)
}

// normalisedHash hashes the normal form of a text (spec: IPC hashes); nil when not given.
func (r *Record) normalisedHash(o object, name string, rule func(dst, text []byte) []byte) []byte {
	text, given := o.strict(name)
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
