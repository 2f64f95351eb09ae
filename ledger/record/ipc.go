package record

import (
	"bytes"
	"crypto/sha256"
	"slices"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// ipc is what an IPC record puts into its event beside what all kinds have.
type ipc struct {
	r             *Record
	model         []byte
	temperature   []byte // repr of the double
	maxTokens     []byte // decimal
	seed          []byte // decimal; nil when neither record nor payload has one
	payloadSchema []byte
	environment   [len(rules.Environment)][]byte
	usage         pyjson.Value // what stands in the event; Absent when content or not given
}

func (p *ipc) appendMembers(w *pyjson.Builder) {
	p.r.hashesMember(w)
	p.appendEnvironment(w)
	w.Raw("max_tokens", p.maxTokens)
	w.Text("model", p.model)
	w.Text("payload_schema", p.payloadSchema)
	w.Raw("seed", p.seed)
	w.Raw("temperature", p.temperature)
	w.Value("usage", p.usage)
}

func (p *ipc) appendEnvironment(w *pyjson.Builder) {
	given := func(value []byte) bool { return value != nil }
	if !slices.ContainsFunc(p.environment[:], given) {
		return
	}
	w.Name("environment")
	w.Open()
	for i, value := range p.environment {
		w.Text(rules.Environment[i], value)
	}
	w.Close()
}

// decodeIPC reads an IPC record, recomputes its hashes (1.3) and checks them.
func (r *Record) decodeIPC(d *decoder, v pyjson.Value, pointer string) {
	o := d.object(v, pointer, "run_id", "payload", "input_hash", "payload_schema", "system_prompt",
		"system_prompt_hash", "output", "output_hash", "model", "temperature", "max_tokens", "seed", "ipc_id",
		"ipc_id_advanced", "environment", "usage", "timestamp", "labels", "producer")
	r.common(o)
	p := &r.ipc
	*p = ipc{r: r}
	r.detail = p
	p.model = o.requiredText("model", maxName)
	p.maxTokens = o.requiredCount(r, "max_tokens")
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
	r.setHash("input_hash", input)
	r.setHash("system_prompt_hash", prompt)
	r.setHash("output_hash", output)
	p.identify(prompt != nil && output != nil, id, advanced, input, prompt)
}

// identify computes and checks ipc_id and ipc_id_advanced. Where the chain is
// incomplete they are null, and a claim stands in the check alone (1.3).
func (p *ipc) identify(complete bool, id, advanced, input, prompt []byte) {
	r := p.r
	var computed, computedAdvanced []byte
	if complete && p.seed != nil {
		computed = r.chainID(input, prompt, p.model, p.temperature, p.maxTokens, p.seed)
		if build, model, platform := p.environment[0], p.environment[1], p.environment[2]; build != nil && model != nil && platform != nil {
			computedAdvanced = r.chainID(input, prompt, p.model, p.temperature, p.maxTokens, p.seed, build, model, platform)
		}
	}
	r.setHash("ipc_id", r.checkChain("ipc_id", id, computed, complete))
	if advanced != nil || computedAdvanced != nil {
		r.setHash("ipc_id_advanced", r.checkChain("ipc_id_advanced", advanced, computedAdvanced, complete))
	}
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
		p.temperature = p.r.keep(p.r.scratch)
	}
}

// decodeSeed takes the record's seed or, when it has none, the payload's.
func (p *ipc) decodeSeed(o object) {
	if p.seed = o.integer(p.r, "seed", false); p.seed != nil || o.member("seed").Given() {
		return
	}
	if payload := o.member("payload"); payload.Kind() == pyjson.Object {
		inner := object{o.d, payload, o.at("payload")}
		if string(o.text("payload_schema", maxName)) == rules.AxisPayload {
			p.seed = inner.axisSeed(p.r)
			return
		}
		p.seed = inner.integer(p.r, "seed", false)
	}
}

// PayloadSeed is the seed that a record takes from its payload, in decimal; nil if the
// payload has none. schema is the record's payload_schema.
func PayloadSeed(payload pyjson.Value, schema string) []byte {
	inner, r := object{new(decoder), payload, ""}, new(Record)
	if schema == rules.AxisPayload {
		return inner.axisSeed(r)
	}
	return inner.integer(r, "seed", false)
}

func (p *ipc) decodeEnvironment(o object) {
	v := o.member("environment")
	if !v.Given() {
		return
	}
	e := o.d.object(v, o.at("environment"), rules.Environment[:]...)
	for i, name := range rules.Environment {
		p.environment[i] = e.text(name, maxName)
	}
}

// inputHash hashes the payload in spaced canonical JSON; nil without payload.
func (p *ipc) inputHash(o object) []byte {
	r := p.r
	payload := o.typed("payload", pyjson.Object, "an object")
	o.strictJSON("payload", payload)
	o.constant("payload_schema", rules.AxisPayload)
	p.payloadSchema = o.text("payload_schema", maxName)
	if !payload.Given() {
		if !o.member("payload").Given() && !o.member("input_hash").Given() {
			o.d.invalid(o.at("payload"), "is required, or input_hash in its place")
		}
		return nil
	}
	r.addContent("payload", payload.Raw())
	if p.payloadSchema != nil {
		return o.axisPayloadHash(r, payload)
	}
	var sum Hash
	sum, r.scratch = rules.PayloadHash(r.scratch, payload)
	return r.hex(sum)
}

// normalisedHash hashes a text after a rule of part 1; nil when not given.
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
