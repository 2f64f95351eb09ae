package formats

import (
	"slices"
	"strconv"

	"colophon/ledger/record"
	"colophon/ledger/record/fields"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// providence converts a row of providence_cache. The row, its run-DAG blob, and the run-DAG itself
// are layers: a member can be in any of them, and an outer layer takes precedence.
func providence(v pyjson.Value, o Options) Conversion {
	p := &providenceRow{draft: newDraft(record.RunDAG, key(Providence, v, notOfTheRun), o), used: make(map[string][]string)}
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
		p.note("", "", Left, "no record is made from it")
		return p.leave("it has no run-DAG in JSON, and lacks inputs from which to build one")
	default:
		p.oneAnswer()
	}
	p.takeRun()
	p.rest()
	return p.finish()
}

// notOfTheRun contains the members of a row that can change while the run stays the same. The state
// becomes a separate event; the others are left out.
var notOfTheRun = map[string]bool{
	"initial_state": true, "state": true, "status": true, "state_reason": true, "reason": true,
	"state_changed_by": true, "state_changed_at": true,
	"hit_count": true, "last_hit_at": true,
}

// layer is an object whose members can become members of the record, and its JSON pointer.
type layer struct {
	object  pyjson.Value
	pointer string
}

// found is a member of a layer, and its JSON pointer.
type found struct {
	member
	pointer string
}

func (f found) given() bool { return f.value.IsGiven() }

type providenceRow struct {
	*draft
	layers []layer
	dag    layer
	used   map[string][]string // names that each member got in the record, by the member's pointer
}

// open adds the member of in with the given name as a layer, if it is the run-DAG or an object that
// can contain the run-DAG.
func (p *providenceRow) open(in layer, name string) {
	value, ok := jsonOf(in.object.Member(name))
	if !ok || !isObject(value) {
		return
	}
	opened := layer{value, in.pointer + pointerTo(name)}
	p.layers = append(p.layers, opened)
	p.used[opened.pointer] = nil // because its members are accounted for one by one
	if isArray(value.Member("nodes")) {
		p.dag = opened
		return
	}
	p.open(opened, "dag")
}

// jsonOf returns v or, if v is a text that contains JSON, the parsed JSON. ok is false if v is null
// or absent, or a text that does not contain JSON.
func jsonOf(v pyjson.Value) (pyjson.Value, bool) {
	if v.Kind() != pyjson.String {
		return v, v.IsGiven()
	}
	d := new(pyjson.Document)
	if d.ParseWithin(v.Text(), record.DefaultLimits().Values) != nil {
		return pyjson.Value{}, false
	}
	return d.Root(), d.Root().IsGiven()
}

// find returns the first member that has one of the names and that form accepts. It looks for each
// name in all layers before it looks for the next name. A list or an object can also be JSON in a
// text.
func (p *providenceRow) find(form func(pyjson.Value) bool, names ...string) found {
	for _, name := range names {
		for _, l := range p.layers {
			value := l.object.Member(name)
			if !value.IsGiven() {
				continue
			}
			if form(value) {
				return found{member{name, value}, l.pointer + pointerTo(name)}
			}
			if inner, ok := jsonOf(value); ok && value.Kind() == pyjson.String && inner.Kind() >= pyjson.Array && form(inner) {
				return found{member{name, inner}, l.pointer + pointerTo(name)}
			}
		}
	}
	return found{}
}

// use records that a member of the row became the member as of the record.
func (p *providenceRow) use(f found, as string) {
	p.used[f.pointer] = append(p.used[f.pointer], as)
}

// takeAs makes a member a field of the record, unless it is missing or the field is already used.
func (p *providenceRow) takeAs(f found, field string) {
	if f.given() && !p.names[field] {
		p.raw(field, f.value.Raw())
		p.use(f, field)
	}
}

// node returns the hash of the first stage with the given name, or nil.
func (p *providenceRow) node(stage string) []byte {
	for n := range p.dag.object.Member("nodes").Elements() {
		if string(n.Member("stage").Text()) == stage && isDigest(n.Member("hash")) {
			return n.Member("hash").Text()
		}
	}
	return nil
}

// hasBase reports whether the row has a base hash: as the member name, as the hash of the stage, or
// as content from which the ledger can compute it.
func (p *providenceRow) hasBase(name, stage string, content found) bool {
	return p.find(isDigest, name).given() || p.node(stage) != nil || content.given()
}

func (p *providenceRow) question() found { return p.find(isWTF, "question_text", "question") }

// texts returns the answer, the answer as the model returned it, and the answer as it was
// displayed. Each can be missing.
func (p *providenceRow) texts() (answer, raw, rendered found) {
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

// buildInputs writes the member inputs, with which the ledger checks each stage of the run-DAG.
func (p *providenceRow) buildInputs() {
	var w pyjson.Builder
	w.Open()
	take := func(f found, name string) {
		if f.given() {
			w.BeginMember(name)
			w.B = append(w.B, f.value.Raw()...)
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
	w.Close()
	p.raw("inputs", w.B)
}

func firstOf(list ...found) found {
	i := slices.IndexFunc(list, found.given)
	return list[max(i, 0)]
}

// baseClaims writes the base hashes that are also hashes of stages. Each comes from the row or, if
// the row does not have it, from its stage.
func (p *providenceRow) baseClaims(w *pyjson.Builder, take func(found, string)) {
	for _, b := range rules.BaseHashes {
		switch {
		case b.Stage == "" || b.Name == "evidence_map_root" && !p.pointerRun():
			continue
		case p.find(isDigest, b.Name).given():
			take(p.find(isDigest, b.Name), b.Name)
		case p.node(b.Stage) != nil:
			w.Text(b.Name, p.node(b.Stage))
		}
	}
}

// Members of inputs, of reject_inputs, and of a preflight payload (spec: Run-DAG).
var (
	inputMembers = []string{"question_hash", "preflight_hash", "preflight_payload", "context_root", "evidence_map_root", "conversation_hash",
		"answer_text", "raw_answer_text", "rendered_text", "parsed_lattice", "audit_mode", "verifier_method", "n_quotes", "n_verified", "sources",
		"retrieval_plan_hash", "lookup_path", "claim_statuses", "violations", "answer_mode"}
	rejectMembers = []string{"question_hash", "preflight_hash", "preflight_payload", "rejection_reason", "answer_text", "violations",
		"audit_mode", "verifier_method"}
	preflightMembers = append([]string{"stage", "node_version"}, rules.Clauses[:]...)
)

// only returns the object f with only the known members. It keeps all other members, as it keeps
// members of the row.
func (p *providenceRow) only(f found, known []string) []byte {
	var w pyjson.Builder
	w.Open()
	whole := true
	for name, value := range f.value.Members() {
		m := string(name.Text())
		if slices.Contains(known, m) {
			w.BeginMember(m)
			if m == "preflight_payload" && isObject(value) {
				inner := p.only(found{member{m, value}, f.pointer + pointerTo(m)}, preflightMembers)
				whole = whole && len(inner) == len(value.Raw())
				w.B = append(w.B, inner...)
				continue
			}
			w.B = append(w.B, value.Raw()...)
			continue
		}
		whole = false
		p.keepAt(f.pointer+pointerTo(m), "", member{m, value})
	}
	w.Close()
	if whole {
		return f.value.Raw() // so that it is copied byte for byte
	}
	return w.B
}

// takeInputs adds the member inputs or reject_inputs of the row. If it has no answer_text,
// takeInputs uses a text of the row. Otherwise, takeInputs accounts for those texts of the row that
// are also in it.
func (p *providenceRow) takeInputs(inputs found, field string) {
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
	for _, text := range [...]found{answer, raw, rendered} {
		for name, value := range inputs.value.Members() {
			if text.given() && isWTF(value) && string(value.Text()) == string(text.value.Text()) {
				p.use(text, field+"/"+string(name.Text())+": it has the same text")
				break
			}
		}
	}
}

// oneAnswer adds the one text that a run-DAG without inputs can have, and accounts for the others.
func (p *providenceRow) oneAnswer() {
	answer, raw, rendered := p.texts()
	text := firstOf(answer, rendered, raw)
	p.takeAs(text, "answer_text")
	for _, other := range [...]found{answer, raw, rendered} {
		switch {
		case !other.given() || other.pointer == text.pointer:
		case string(other.value.Text()) == string(text.value.Text()):
			p.use(other, "answer_text: it has the same text")
		default:
			// Otherwise, the caller would keep a second text of a run-DAG without inputs as
			// content.
			p.used[other.pointer] = []string{}
			p.note(other.pointer, "", Left, "a run-DAG without inputs keeps only one text; add sources, counts, and hashes to keep this one too")
		}
	}
}

// takeRun adds all other members of the record.
func (p *providenceRow) takeRun() {
	p.takeDAG()
	p.takeAs(p.find(isID, "run_id"), "run_id")
	p.takeAs(p.find(isDigest, "cache_key"), "cache_key")
	p.takeAs(p.find(isArray, "messages"), "messages")
	p.takeAs(p.find(isObject, "policy", "governance_policy"), "policy")
	p.takeAs(p.find(isObject, "verifier_policy"), "verifier_policy")
	p.takeAs(p.find(isDigests, "source_roots"), "source_roots")
	p.takeAs(p.find(isEvidence, "evidence"), "evidence")
	p.takeQuestion()
	p.takeDimensions()
	for _, name := range [...]string{"timestamp", "created_at"} {
		f := p.find(func(v pyjson.Value) bool { _, _, ok := parseTime(v, p.options.Zone); return ok }, name)
		if f.given() && !p.names["timestamp"] {
			text, zoned, _ := parseTime(f.value, p.options.Zone)
			p.text("timestamp", []byte(text))
			p.zoned = p.zoned || zoned
			p.use(f, "timestamp")
		}
	}
	p.takeState()
}

func isDigests(v pyjson.Value) bool {
	for e := range v.Elements() {
		if !isDigest(e) {
			return false
		}
	}
	return v.Len() > 0 && isArray(v)
}

func isEvidence(v pyjson.Value) bool {
	for e := range v.Elements() {
		if !isDigest(e.Member("chunk_root")) || !isCount(e.Member("start")) || !isCount(e.Member("end")) || e.Len() != 3 {
			return false
		}
	}
	return v.Len() > 0 && isArray(v)
}

// takeQuestion adds the question. If the row has no mode of the question, takeQuestion uses the
// mode with which the question has the row's question hash.
func (p *providenceRow) takeQuestion() {
	question := p.question()
	if !question.given() {
		return
	}
	p.takeAs(question, "question")
	mode := p.find(func(v pyjson.Value) bool {
		return string(v.Text()) == "strict" || string(v.Text()) == "equivalence_class"
	}, "question_mode")
	if mode.given() {
		p.takeAs(mode, "question_mode")
		return
	}
	claim := p.find(isDigest, "question_hash").value.Text()
	if claim == nil {
		claim = p.node("question")
	}
	if hash := rules.QuestionHash(question.value.Text(), true); claim != nil && string(rules.AppendHex(nil, hash)) == string(claim) &&
		hash != rules.QuestionHash(question.value.Text(), false) {
		p.text("question_mode", []byte("strict"))
	}
}

// takeDAG adds the run-DAG. It keeps unknown members of the run-DAG, as it keeps members of the
// row.
func (p *providenceRow) takeDAG() {
	dag := p.dag.object
	if dag.Kind() == pyjson.Absent {
		return
	}
	var w pyjson.Builder
	w.Open()
	root := p.find(isDigest, "root", "run_dag_root")
	if own := dag.Member("root"); own.IsGiven() {
		root = found{member{"root", own}, p.dag.pointer + "/root"}
	}
	if root.given() {
		w.BeginMember("root")
		w.B = append(w.B, root.value.Raw()...)
		p.use(root, "dag/root")
	}
	if again := p.find(isDigest, "run_dag_root"); again.given() && string(again.value.Text()) == string(root.value.Text()) && again.pointer != root.pointer {
		p.use(again, "dag/root: it has the same value")
	}
	w.BeginMember("nodes")
	w.B = append(w.B, '[')
	i, exact := 0, dag.Member("root").IsGiven()
	for n := range dag.Member("nodes").Elements() {
		w.Comma(i)
		exact = p.appendNode(&w, n, p.dag.pointer+"/nodes/"+strconv.Itoa(i)) && exact
		i++
	}
	w.B = append(w.B, ']')
	p.use(found{pointer: p.dag.pointer + "/nodes"}, "dag/nodes")
	preflight := p.find(isObject, "preflight_payload")
	if own := dag.Member("preflight_payload"); isObject(own) {
		preflight = found{member{"preflight_payload", own}, p.dag.pointer + "/preflight_payload"}
	}
	members := 2
	if preflight.given() {
		payload := p.only(preflight, preflightMembers)
		exact = exact && len(payload) == len(preflight.value.Raw())
		w.BeginMember("preflight_payload")
		w.B = append(w.B, payload...)
		p.use(preflight, "dag/preflight_payload")
		members++
	}
	w.Close()
	if exact && dag.Len() == members && (!preflight.given() || dag.Member("preflight_payload").IsGiven()) {
		w.B = dag.Raw() // so that it is copied byte for byte
	}
	p.raw("dag", w.B)
}

// appendNode appends a stage, and reports whether it copied all members of the stage.
func (p *providenceRow) appendNode(w *pyjson.Builder, n pyjson.Value, pointer string) (exact bool) {
	if !isObject(n) {
		w.B = append(w.B, n.Raw()...) // the ledger will report the error
		return true
	}
	w.Open()
	exact = true
	for name, value := range n.Members() {
		switch m := string(name.Text()); m {
		case "stage", "hash":
			w.BeginMember(m)
			w.B = append(w.B, value.Raw()...)
		default:
			exact = false
			at := pointer + pointerTo(m)
			p.keepAt(at, p.dag.pointer+"/nodes/*"+pointerTo(m), member{at[1:], value})
		}
	}
	w.Close()
	return exact
}

// takeDimensions adds the dimensions of the cache key, if the row has all the required ones.
func (p *providenceRow) takeDimensions() {
	if own := p.find(isObject, "cache_dimensions"); own.given() {
		p.raw("cache_dimensions", p.only(own, rules.Dimensions[:]))
		p.use(own, "cache_dimensions")
		return
	}
	values := make([]found, len(rules.Dimensions))
	for i, name := range rules.Dimensions {
		form := isDigest
		if rules.IsVersionDimension(name) {
			form = func(v pyjson.Value) bool { return isWTF(v) || isInteger(v) }
		}
		values[i] = p.find(form, name)
	}
	last := len(values) - 1
	var roots []found
	for _, name := range [...]string{"source_root", "context_root", "document_root"} {
		if f := p.find(isDigest, name); f.given() {
			roots = append(roots, f)
		}
	}
	if len(roots) == 0 || slices.ContainsFunc(values[1:last], func(f found) bool { return !f.given() }) {
		return // so that each member is kept separately
	}
	p.writeDimensions(p.chooseDimensions(values, roots))
}

// chooseDimensions returns those dimensions that result in the row's cache key. If none do, it
// returns the first possible choice.
func (p *providenceRow) chooseDimensions(values, roots []found) []found {
	claim := p.find(isDigest, "cache_key").value.Text()
	var first []found
	for _, root := range roots {
		for n := len(values); n >= len(values)-1; n-- {
			if !values[n-1].given() {
				continue
			}
			choice := slices.Clone(values[:n])
			choice[0] = root
			if first == nil {
				first = choice
			}
			texts := make([][]byte, n)
			for i, f := range choice {
				texts[i] = textOf(f.value)
			}
			if string(rules.AppendHex(nil, rules.CacheKey(texts))) == string(claim) {
				return choice
			}
		}
	}
	return first
}

// textOf returns a text, or a number in canonical form, as a text.
func textOf(v pyjson.Value) []byte {
	if v.Kind() == pyjson.String {
		return v.Text()
	}
	return []byte(canonical(v))
}

func (p *providenceRow) writeDimensions(values []found) {
	var w pyjson.Builder
	w.Open()
	for i, f := range values {
		w.Text(rules.Dimensions[i], textOf(f.value))
		p.use(f, "cache_dimensions/"+rules.Dimensions[i])
	}
	w.Close()
	p.raw("cache_dimensions", w.B)
}

// takeState adds the change of state that is to follow the record.
func (p *providenceRow) takeState() {
	state := p.find(func(v pyjson.Value) bool { return slices.Contains(record.States[:], record.State(v.Text())) },
		"initial_state", "state", "status")
	if !state.given() {
		return
	}
	if s := record.State(state.value.Text()); s == record.Live {
		p.use(state, "state: a new record is live")
	} else {
		p.use(state, "state")
		by, at := p.find(isID, "state_changed_by"), p.find(func(v pyjson.Value) bool { _, _, ok := parseTime(v, p.options.Zone); return ok }, "state_changed_at")
		change := &RecordChange{State: s, Reason: "imported as " + string(s), Key: p.changeKey(string(s), at.value, by.value)}
		if by.given() {
			change.OriginalActor = string(by.value.Text())
			p.use(by, "original_actor of the state")
		}
		if at.given() {
			change.Timestamp, _, _ = parseTime(at.value, p.options.Zone)
			p.use(at, "timestamp of the state")
		}
		reason := p.find(func(v pyjson.Value) bool {
			return isText(v) && len(v.Text()) > 0 && len(v.Text()) <= fields.MaxReason
		}, "state_reason", "reason")
		if reason.given() {
			change.Reason = string(reason.value.Text())
			p.use(reason, "reason of the state")
		}
		p.entry.Change = change
	}
}

// rest accounts for every member of every layer that is not accounted for yet.
func (p *providenceRow) rest() {
	for _, l := range p.layers {
		for name, value := range l.object.Members() {
			m := member{string(name.Text()), value}
			at := l.pointer + pointerTo(m.name)
			taken, used := p.used[at]
			switch {
			case used && len(taken) > 0:
				for _, as := range taken {
					p.note(at, "", Taken, "%s", as)
				}
			case used: // its members or a note account for it
			case l.pointer == "" && notOfTheRun[m.name]:
				p.note(at, "", Left, "it can change although the run does not, so it is not part of the record")
			case isDigest(value) && p.stageOf(value.Text()) != "":
				p.note(at, "", Taken, "dag: it is the hash of the stage %s", p.stageOf(value.Text()))
			default:
				p.keepAt(at, "", m)
				p.hintZone(m)
			}
		}
	}
}

// stageOf returns the name of the first stage that has the given hash, or "" if there is none.
func (p *providenceRow) stageOf(hash []byte) string {
	for n := range p.dag.object.Member("nodes").Elements() {
		if string(n.Member("hash").Text()) == string(hash) {
			return string(n.Member("stage").Text())
		}
	}
	return ""
}
