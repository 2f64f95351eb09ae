package formats

import (
	"slices"
	"strconv"

	"colophon/ledger/record"
	"colophon/ledger/record/fields"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// takeRun adds the members other than inputs and the answer to the record.
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
		f := p.find(func(v pyjson.Value) bool { _, _, ok := parseTime(v, p.options.DefaultZone); return ok }, name)
		if f.given() && !p.names["timestamp"] {
			text, zoned, _ := parseTime(f.value, p.options.DefaultZone)
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

// takeQuestion adds the question to the record. If the row does not state the question mode,
// takeQuestion uses the mode that yields the row's question hash.
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

// takeDAG adds the run-DAG to the record. Unknown members of the run-DAG are kept in the same way
// as those of the row.
func (p *providenceRow) takeDAG() {
	dag := p.dag.object
	if dag.Kind() == pyjson.Absent {
		return
	}
	var w pyjson.Builder
	w.BeginObject()
	root := p.find(isDigest, "root", "run_dag_root")
	if own := dag.Member("root"); own.IsGiven() {
		root = layerMember{member{"root", own}, p.dag.pointer + "/root"}
	}
	if root.given() {
		w.BeginMember("root")
		w.Buf = append(w.Buf, root.value.Raw()...)
		p.use(root, "dag/root")
	}
	if again := p.find(isDigest, "run_dag_root"); again.given() && string(again.value.Text()) == string(root.value.Text()) && again.pointer != root.pointer {
		p.use(again, "dag/root (same value)")
	}
	w.BeginMember("nodes")
	w.Buf = append(w.Buf, '[')
	i, exact := 0, dag.Member("root").IsGiven()
	for n := range dag.Member("nodes").Elements() {
		w.WriteComma(i)
		exact = p.appendNode(&w, n, p.dag.pointer+"/nodes/"+strconv.Itoa(i)) && exact
		i++
	}
	w.Buf = append(w.Buf, ']')
	p.use(layerMember{pointer: p.dag.pointer + "/nodes"}, "dag/nodes")
	preflight := p.find(isObject, "preflight_payload")
	if own := dag.Member("preflight_payload"); isObject(own) {
		preflight = layerMember{member{"preflight_payload", own}, p.dag.pointer + "/preflight_payload"}
	}
	members := 2
	if preflight.given() {
		payload := p.only(preflight, preflightMembers)
		exact = exact && len(payload) == len(preflight.value.Raw())
		w.BeginMember("preflight_payload")
		w.Buf = append(w.Buf, payload...)
		p.use(preflight, "dag/preflight_payload")
		members++
	}
	w.EndObject()
	if exact && dag.Len() == members && (!preflight.given() || dag.Member("preflight_payload").IsGiven()) {
		w.Buf = dag.Raw() // copies the run-DAG byte for byte
	}
	p.raw("dag", w.Buf)
}

// appendNode appends a stage, and reports whether it copied all members of the stage.
func (p *providenceRow) appendNode(w *pyjson.Builder, n pyjson.Value, pointer string) (exact bool) {
	if !isObject(n) {
		w.Buf = append(w.Buf, n.Raw()...) // the ledger will report the error
		return true
	}
	w.BeginObject()
	exact = true
	for name, value := range n.Members() {
		switch m := string(name.Text()); m {
		case "stage", "hash":
			w.BeginMember(m)
			w.Buf = append(w.Buf, value.Raw()...)
		default:
			exact = false
			at := pointer + pointerTo(m)
			p.keepAt(at, p.dag.pointer+"/nodes/*"+pointerTo(m), member{at[1:], value})
		}
	}
	w.EndObject()
	return exact
}

// takeDimensions adds the dimensions of the cache key, if the row has all the required ones.
func (p *providenceRow) takeDimensions() {
	if own := p.find(isObject, "cache_dimensions"); own.given() {
		p.raw("cache_dimensions", p.only(own, rules.CacheDimensions[:]))
		p.use(own, "cache_dimensions")
		return
	}
	values := make([]layerMember, len(rules.CacheDimensions))
	for i, name := range rules.CacheDimensions {
		form := isDigest
		if rules.IsVersionDimension(name) {
			form = func(v pyjson.Value) bool { return isWTF(v) || isInteger(v) }
		}
		values[i] = p.find(form, name)
	}
	last := len(values) - 1
	var roots []layerMember
	for _, name := range [...]string{"source_root", "context_root", "document_root"} {
		if f := p.find(isDigest, name); f.given() {
			roots = append(roots, f)
		}
	}
	if len(roots) == 0 || slices.ContainsFunc(values[1:last], func(f layerMember) bool { return !f.given() }) {
		return // each member is kept separately
	}
	p.writeDimensions(p.chooseDimensions(values, roots))
}

// chooseDimensions returns the dimensions that yield the row's cache key. If no choice of
// dimensions does, it returns the first possible choice.
func (p *providenceRow) chooseDimensions(values, roots []layerMember) []layerMember {
	claim := p.find(isDigest, "cache_key").value.Text()
	var first []layerMember
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
				texts[i] = textOrNumber(f.value)
			}
			if string(rules.AppendHex(nil, rules.CacheKey(texts))) == string(claim) {
				return choice
			}
		}
	}
	return first
}

// textOrNumber returns a string's text, or a number's canonical form.
func textOrNumber(v pyjson.Value) []byte {
	if v.Kind() == pyjson.String {
		return v.Text()
	}
	return []byte(canonical(v))
}

func (p *providenceRow) writeDimensions(values []layerMember) {
	var w pyjson.Builder
	w.BeginObject()
	for i, f := range values {
		w.AddText(rules.CacheDimensions[i], textOrNumber(f.value))
		p.use(f, "cache_dimensions/"+rules.CacheDimensions[i])
	}
	w.EndObject()
	p.raw("cache_dimensions", w.Buf)
}

// takeState records the state change that is to be made after the record has been posted.
func (p *providenceRow) takeState() {
	state := p.find(func(v pyjson.Value) bool { return slices.Contains(record.States[:], record.State(v.Text())) },
		"initial_state", "state", "status")
	if !state.given() {
		return
	}
	if s := record.State(state.value.Text()); s == record.StateLive {
		p.use(state, "state: a new record is live; if the ledger already has the record, its state is not changed")
	} else {
		p.use(state, "state")
		by, at := p.find(isID, "state_changed_by"), p.find(func(v pyjson.Value) bool { _, _, ok := parseTime(v, p.options.DefaultZone); return ok }, "state_changed_at")
		change := &RecordChange{State: s, Reason: "imported as " + string(s), Key: p.changeKey(string(s), at.value, by.value)}
		if by.given() {
			change.OriginalActor = string(by.value.Text())
			p.use(by, "original_actor of the state change")
		}
		if at.given() {
			change.Timestamp, _, _ = parseTime(at.value, p.options.DefaultZone)
			p.use(at, "timestamp of the state change")
		}
		reason := p.find(func(v pyjson.Value) bool {
			return isText(v) && len(v.Text()) > 0 && len(v.Text()) <= fields.MaxReasonBytes
		}, "state_reason", "reason")
		if reason.given() {
			change.Reason = string(reason.value.Text())
			p.use(reason, "reason of the state change")
		}
		p.conversion.Change = change
	}
}

// rest accounts for every layer's members that have not been accounted for yet.
func (p *providenceRow) rest() {
	for _, l := range p.layers {
		for name, value := range l.object.Members() {
			m := member{string(name.Text()), value}
			at := l.pointer + pointerTo(m.name)
			taken, used := p.used[at]
			switch {
			case used && len(taken) > 0:
				for _, as := range taken {
					p.note(at, "", OutcomeField, "%s", as)
				}
			case used: // accounted for by its members or by a note
			case l.pointer == "" && volatileMembers[m.name]:
				p.note(at, "", OutcomeLeftOut, "the member can change while the run stays the same, so it is not part of the record")
			case isDigest(value) && p.stageOf(value.Text()) != "":
				p.note(at, "", OutcomeField, "dag: the value is the hash of stage %s", p.stageOf(value.Text()))
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
