package formats

import (
	"slices"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// providence converts a row of providence_cache. The row, its run-DAG blob, and the run-DAG itself
// are layers: a member can be in any of them, and the outermost layer that has it takes precedence.
func providence(v pyjson.Value, o Options) Conversion {
	p := &providenceRow{draft: newDraft(record.KindRunDAG, key(ProvidenceCache, v, volatileMembers), o), used: make(map[string][]string)}
	p.layers = append(p.layers, layer{object: v})
	for _, name := range [...]string{"run_dag_blob", "run_dag", "dag"} {
		if p.dag.object.Kind() == pyjson.Absent {
			p.open(layer{object: v}, name)
		}
	}
	inputs, reject := p.find(isObject, "inputs"), p.find(isObject, "reject_inputs")
	switch {
	case inputs.given():
		p.takeInputs(inputs, "inputs")
	case reject.given():
		p.takeInputs(reject, "reject_inputs")
	case p.buildable():
		p.buildInputs()
	case p.dag.object.Kind() == pyjson.Absent:
		p.note("", "", OutcomeLeftOut, "no record was created")
		return p.leave("the row has neither a run-DAG in JSON nor the inputs needed to build one")
	default:
		p.oneAnswer()
	}
	p.takeRun()
	p.rest()
	return p.finish()
}

// volatileMembers contains the members of a row that can change while the run stays the same. The state
// becomes a separate event, and the other members are left out.
var volatileMembers = map[string]bool{
	"initial_state": true, "state": true, "status": true, "state_reason": true, "reason": true,
	"state_changed_by": true, "state_changed_at": true,
	"hit_count": true, "last_hit_at": true,
}

// layer is an object whose members can become members of the record. pointer is the JSON pointer to
// the object.
type layer struct {
	object  pyjson.Value
	pointer string
}

// layerMember is a member of a layer. pointer is the JSON pointer to the member.
type layerMember struct {
	member
	pointer string
}

func (f layerMember) given() bool { return f.value.IsGiven() }

type providenceRow struct {
	*draft
	layers []layer
	dag    layer
	used   map[string][]string // maps the JSON pointer of each used member of the row to the names of that member in the record
}

// open looks up the member with the given name in a layer. If the member is the run-DAG or an
// object that can contain the run-DAG, open adds the member to p.layers.
func (p *providenceRow) open(in layer, name string) {
	value, ok := jsonOf(in.object.Member(name))
	if !ok || !isObject(value) {
		return
	}
	opened := layer{value, in.pointer + pointerTo(name)}
	p.layers = append(p.layers, opened)
	p.used[opened.pointer] = nil // each of its members is accounted for separately
	if isArray(value.Member("nodes")) {
		p.dag = opened
		return
	}
	p.open(opened, "dag")
}

// jsonOf returns v or, if v is a string that contains JSON, the parsed JSON. ok is false if v is
// null, absent, or a string that does not contain JSON.
func jsonOf(v pyjson.Value) (pyjson.Value, bool) {
	if v.Kind() != pyjson.String {
		return v, v.IsGiven()
	}
	d := new(pyjson.Document)
	if d.ParseLimited(v.Text(), record.DefaultLimits().MaxJSONValues) != nil {
		return pyjson.Value{}, false
	}
	return d.Root(), d.Root().IsGiven()
}

// find returns the first member that has one of the given names and whose value form accepts. It
// looks for each name in all layers before it looks for the next name. An array or object can also
// be given as a string that contains JSON.
func (p *providenceRow) find(form func(pyjson.Value) bool, names ...string) layerMember {
	for _, name := range names {
		for _, l := range p.layers {
			value := l.object.Member(name)
			if !value.IsGiven() {
				continue
			}
			if form(value) {
				return layerMember{member{name, value}, l.pointer + pointerTo(name)}
			}
			if inner, ok := jsonOf(value); ok && value.Kind() == pyjson.String && inner.Kind() >= pyjson.Array && form(inner) {
				return layerMember{member{name, inner}, l.pointer + pointerTo(name)}
			}
		}
	}
	return layerMember{}
}

// use notes that the record contains f, a member of the row, under the name as.
func (p *providenceRow) use(f layerMember, as string) {
	p.used[f.pointer] = append(p.used[f.pointer], as)
}

// takeAs copies a member to a field of the record, unless the member is missing or the field is
// already set.
func (p *providenceRow) takeAs(f layerMember, field string) {
	if f.given() && !p.names[field] {
		p.raw(field, f.value.Raw())
		p.use(f, field)
	}
}

// node returns the hash of the first stage with the given name, or nil if there is none.
func (p *providenceRow) node(stage string) []byte {
	for n := range p.dag.object.Member("nodes").Elements() {
		if string(n.Member("stage").Text()) == stage && isDigest(n.Member("hash")) {
			return n.Member("hash").Text()
		}
	}
	return nil
}

// hasBase reports whether the row provides a base hash. The hash can be the member with the given
// name or the hash of the given stage, or the ledger can compute it from content.
func (p *providenceRow) hasBase(name, stage string, content layerMember) bool {
	return p.find(isDigest, name).given() || p.node(stage) != nil || content.given()
}

func (p *providenceRow) question() layerMember { return p.find(isWTF, "question_text", "question") }

// texts returns the answer, the answer as the model returned it, and the answer as it was
// displayed. Each can be missing.
func (p *providenceRow) texts() (answer, raw, rendered layerMember) {
	answer = p.find(isWTF, "answer_text", "answer")
	raw = p.find(isWTF, "raw_answer_text", "raw_text", "raw_answer")
	rendered = p.find(isWTF, "rendered_text", "rendered_answer", "rendered")
	return answer, raw, rendered
}

func isObjects(v pyjson.Value) bool {
	for e := range v.Elements() {
		if !isObject(e) {
			return false
		}
	}
	return isArray(v)
}

// pointerRun reports whether the run has the shape "pointer", which means that it has an evidence
// map.
func (p *providenceRow) pointerRun() bool {
	if p.dag.object.Kind() != pyjson.Absent {
		return p.node("evidence_map") != nil
	}
	return p.find(isDigest, "evidence_map_root").given() || p.find(isArray, "evidence").given()
}

// buildable reports whether the row has everything that the ledger needs to build the stages.
func (p *providenceRow) buildable() bool {
	answer, raw, rendered := p.texts()
	evidence := p.hasBase("context_root", "context", p.find(isArray, "source_roots")) || p.pointerRun()
	return p.find(isObjects, "sources").given() && p.find(isCount, "n_quotes").given() && p.find(isCount, "n_verified").given() &&
		p.find(isWTF, "audit_mode").given() && p.find(isWTF, "verifier_method").given() &&
		(answer.given() || raw.given() || rendered.given()) && evidence &&
		p.hasBase("question_hash", "question", p.question()) && p.hasBase("conversation_hash", "prompt", p.find(isArray, "messages"))
}

// buildInputs writes the member "inputs", which the ledger uses to check each stage of the run-DAG.
func (p *providenceRow) buildInputs() {
	var w pyjson.Builder
	w.BeginObject()
	take := func(f layerMember, name string) {
		if f.given() {
			w.BeginMember(name)
			w.Buf = append(w.Buf, f.value.Raw()...)
			p.use(f, "inputs/"+name)
		}
	}
	take(p.find(isObjects, "sources"), "sources")
	for _, name := range [...]string{"n_quotes", "n_verified"} {
		take(p.find(isCount, name), name)
	}
	for _, name := range [...]string{"audit_mode", "verifier_method", "lookup_path", "answer_mode"} {
		take(p.find(isWTF, name), name)
	}
	for _, name := range [...]string{"claim_statuses", "violations"} {
		take(p.find(isArray, name), name)
	}
	take(p.find(pyjson.Value.IsGiven, "parsed_lattice"), "parsed_lattice")
	take(p.find(isDigest, "retrieval_plan_hash"), "retrieval_plan_hash")
	answer, raw, rendered := p.texts()
	take(firstOf(answer, rendered, raw), "answer_text")
	take(raw, "raw_answer_text")
	take(rendered, "rendered_text")
	p.baseClaims(&w, take)
	w.EndObject()
	p.raw("inputs", w.Buf)
}

func firstOf(list ...layerMember) layerMember {
	i := slices.IndexFunc(list, layerMember.given)
	return list[max(i, 0)]
}

// baseClaims writes the base hashes that are also stage hashes. It takes each hash from the row or,
// if the row lacks the hash, from the stage.
func (p *providenceRow) baseClaims(w *pyjson.Builder, take func(layerMember, string)) {
	for _, b := range rules.BaseHashes {
		switch {
		case b.Stage == "" || b.Name == "evidence_map_root" && !p.pointerRun():
			continue
		case p.find(isDigest, b.Name).given():
			take(p.find(isDigest, b.Name), b.Name)
		case p.node(b.Stage) != nil:
			w.AddText(b.Name, p.node(b.Stage))
		}
	}
}

// These are the members of inputs, of reject_inputs, and of a preflight payload (spec: Run-DAG).
var (
	inputMembers = []string{"question_hash", "preflight_hash", "preflight_payload", "context_root", "evidence_map_root", "conversation_hash",
		"answer_text", "raw_answer_text", "rendered_text", "parsed_lattice", "audit_mode", "verifier_method", "n_quotes", "n_verified", "sources",
		"retrieval_plan_hash", "lookup_path", "claim_statuses", "violations", "answer_mode"}
	rejectMembers = []string{"question_hash", "preflight_hash", "preflight_payload", "rejection_reason", "answer_text", "violations",
		"audit_mode", "verifier_method"}
	preflightMembers = append([]string{"stage", "node_version"}, rules.PreflightClauses[:]...)
)

// only returns the object f without the members that are not in known. It passes each removed
// member to keepAt, like an unknown member of the row. If it removes no members, only returns the
// bytes of f unchanged.
func (p *providenceRow) only(f layerMember, known []string) []byte {
	var w pyjson.Builder
	w.BeginObject()
	whole := true
	for name, value := range f.value.Members() {
		m := string(name.Text())
		if slices.Contains(known, m) {
			w.BeginMember(m)
			if m == "preflight_payload" && isObject(value) {
				inner := p.only(layerMember{member{m, value}, f.pointer + pointerTo(m)}, preflightMembers)
				whole = whole && len(inner) == len(value.Raw())
				w.Buf = append(w.Buf, inner...)
				continue
			}
			w.Buf = append(w.Buf, value.Raw()...)
			continue
		}
		whole = false
		p.keepAt(f.pointer+pointerTo(m), "", member{m, value})
	}
	w.EndObject()
	if whole {
		return f.value.Raw() // copies the object byte for byte
	}
	return w.Buf
}

// takeInputs adds the row's inputs or reject_inputs to the record. If inputs has no answer_text,
// takeInputs takes the answer from another member of the row. Otherwise, it notes which of the
// row's texts inputs already contains.
func (p *providenceRow) takeInputs(inputs layerMember, field string) {
	known := inputMembers
	if field == "reject_inputs" {
		known = rejectMembers
	}
	p.raw(field, p.only(inputs, known))
	p.use(inputs, field)
	if !inputs.value.Member("answer_text").IsGiven() {
		p.oneAnswer()
		return
	}
	answer, raw, rendered := p.texts()
	for _, text := range [...]layerMember{answer, raw, rendered} {
		for name, value := range inputs.value.Members() {
			if text.given() && isWTF(value) && string(value.Text()) == string(text.value.Text()) {
				p.use(text, field+"/"+string(name.Text())+" (same text)")
				break
			}
		}
	}
}

// oneAnswer adds the row's answer to the record as answer_text, which can contain only one text. It
// also accounts for the row's other texts.
func (p *providenceRow) oneAnswer() {
	answer, raw, rendered := p.texts()
	text := firstOf(answer, rendered, raw)
	p.takeAs(text, "answer_text")
	for _, other := range [...]layerMember{answer, raw, rendered} {
		switch {
		case !other.given() || other.pointer == text.pointer:
		case string(other.value.Text()) == string(text.value.Text()):
			p.use(other, "answer_text (same text)")
		default:
			// A run-DAG without inputs cannot have a second text. Mark the text as used, or rest
			// would keep it as a label.
			p.used[other.pointer] = []string{}
			p.note(other.pointer, "", OutcomeLeftOut, "a run-DAG without inputs can have only one text; add sources, counts, and hashes to keep this text as well")
		}
	}
}
