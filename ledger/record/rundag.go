package record

import (
	"bytes"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// runDAG is a run-DAG while it is decoded.
type runDAG struct {
	RunFields
	r *Record
	// base holds the effective hashes that stages and cache key are made of;
	// fromContent names those that were recomputed.
	base        map[string][]byte
	fromContent map[string]bool

	nodes      []node
	dimensions []dimension // of the cache key, in the order in which they are joined
}

// RunShape is the shape and the failure stage of a run-DAG (spec: Failure stage) as canonical
// JSON, as they stand in its event; nil for other kinds.
func (r *Record) RunShape() (shape, failureStage []byte) {
	f, ok := r.fields.(*RunFields)
	if !ok {
		return nil, nil
	}
	shape = pyjson.AppendString(nil, f.Shape)
	if f.FailureStage == nil {
		return shape, []byte("null")
	}
	return shape, pyjson.AppendString(nil, f.FailureStage)
}

// decodeRunDAG reads a run-DAG, rebuilds what its content allows (spec: Run-DAG) and
// checks it stage by stage.
func (r *Record) decodeRunDAG(d *decoder, v pyjson.Value, pointer string) {
	o := d.object(v, pointer, "run_id", "dag", "inputs", "reject_inputs", "question", "question_mode",
		"answer_text", "messages", "policy", "verifier_policy", "source_roots", "evidence", "cache_dimensions",
		"cache_key", "timestamp", "labels", "producer")
	r.decodeCommon(o)
	g := &runDAG{r: r, base: make(map[string][]byte), fromContent: make(map[string]bool)}
	r.fields = &g.RunFields

	claimed, claimedRoot := g.decodeDAG(o)
	arguments := g.arguments(o)
	dimensions := g.decodeDimensions(o)
	g.decodeBase(o, arguments, dimensions, claimed)
	cacheKey := o.hash("cache_key")
	answer, hasAnswer := o.wtf("answer_text")
	if hasAnswer {
		r.addContent("answer_text", answer)
	}
	switch {
	case d.failed():
		return
	case o.member("inputs").Given():
		g.build(o, arguments, answer, hasAnswer)
	case o.member("reject_inputs").Given():
		g.buildReject(o, arguments, answer, hasAnswer)
	case claimed != nil:
		g.adopt(claimed, answer, hasAnswer)
	default:
		d.invalid(o.at("dag"), "is required, or inputs or reject_inputs in its place")
	}
	if d.failed() {
		return
	}
	g.finish(claimed, claimedRoot, dimensions, cacheKey)
}

// decodeDAG reads the DAG as the service built it.
func (g *runDAG) decodeDAG(o object) (nodes []node, root []byte) {
	v := o.member("dag")
	if !v.Given() {
		return nil, nil
	}
	g.r.addContent("dag", v.Raw())
	dag := o.d.object(v, o.at("dag"), "root", "nodes", "preflight_payload")
	if !dag.member("root").Given() {
		dag.missing("root")
	}
	root = dag.hash("root")
	list := dag.array("nodes")
	if list.Len() == 0 {
		o.d.invalid(dag.at("nodes"), "must have at least one stage")
	}
	if !dag.fits("nodes", list, 64+len(`{"hash":"","stage":""},`), "split it into several records") {
		return nil, nil
	}
	for e := range list.Elements() {
		if o.d.full() {
			return nil, nil
		}
		n := o.d.object(e, dag.element("nodes", len(nodes)), "stage", "hash")
		if !n.member("hash").Given() {
			n.missing("hash")
		}
		nodes = append(nodes, node{stage: string(n.requiredText("stage", maxStage)), hash: n.hash("hash")})
	}
	return nodes, root
}

// arguments is inputs or reject_inputs, an empty object when neither is given.
func (g *runDAG) arguments(o object) object {
	inputs, reject := o.member("inputs"), o.member("reject_inputs")
	switch {
	case inputs.Given() && reject.Given():
		o.d.invalid(o.at("reject_inputs"), "cannot stand beside inputs; a run has one shape")
	case inputs.Given():
		g.r.addContent("inputs", inputs.Raw())
		return o.d.object(inputs, o.at("inputs"), "question_hash", "preflight_hash", "preflight_payload", "context_root",
			"evidence_map_root", "conversation_hash", "answer_text", "raw_answer_text", "rendered_text",
			"parsed_lattice", "audit_mode", "verifier_method", "n_quotes", "n_verified", "sources",
			"retrieval_plan_hash", "lookup_path", "claim_statuses", "violations", "answer_mode")
	case reject.Given():
		g.r.addContent("reject_inputs", reject.Raw())
		return o.d.object(reject, o.at("reject_inputs"), "question_hash", "preflight_hash", "preflight_payload",
			"rejection_reason", "answer_text", "violations", "audit_mode", "verifier_method")
	}
	return object{d: o.d}
}

// decodeBase recomputes the base hashes from content and checks their claims,
// which the builders' arguments hold or, failing them, the claimed stages, whose
// own checks stand for them, or the cache dimensions.
func (g *runDAG) decodeBase(o, arguments, dimensions object, claimed []node) {
	computed := map[string][]byte{
		"question_hash":          g.questionHash(o),
		"context_root":           g.contextRoot(o),
		"evidence_map_root":      g.evidenceMapRoot(o),
		"conversation_hash":      g.contentHash(o, "messages", pyjson.Array),
		"governance_policy_hash": g.contentHash(o, "policy", pyjson.Object),
		"verifier_policy_hash":   g.contentHash(o, "verifier_policy", pyjson.Object),
		"preflight_hash":         g.preflightHash(o, arguments),
	}
	for _, b := range rules.BaseHashes {
		c := claimOf(b.Name, hashOf(claimed, b.Stage), arguments, dimensions)
		effective := computed[b.Name]
		if effective == nil {
			effective = c.hash
		}
		if !c.checked {
			g.r.check(b.Name, c.hash, computed[b.Name])
			if c.hash != nil {
				g.r.Checks[len(g.r.Checks)-1].pointer = c.pointer
			}
		}
		if c.repeated != nil {
			g.checkRepeated(b.Name, c.repeated, effective, computed[b.Name] != nil)
		}
		g.base[b.Name] = effective
		g.fromContent[b.Name] = computed[b.Name] != nil
	}
}

// baseClaim is what a record claims of a base hash.
type baseClaim struct {
	hash     []byte // nil when it claims nothing
	pointer  string // where hash stands
	checked  bool   // it is a stage's, whose own check stands for it
	repeated []byte // the dimension of the same name, where that is not hash itself
}

// claimOf takes the claim of the builders' arguments or, where there are none,
// that of the stage, or else that of the cache dimensions.
func claimOf(name string, stage []byte, arguments, dimensions object) baseClaim {
	dimension := dimensions.hash(name)
	if claim := arguments.hash(name); claim != nil {
		return baseClaim{hash: claim, pointer: arguments.at(name), repeated: dimension}
	}
	if stage != nil && arguments.v.Kind() == pyjson.Absent {
		return baseClaim{hash: stage, checked: true, repeated: dimension}
	}
	return baseClaim{hash: dimension, pointer: dimensions.at(name)}
}

// checkRepeated checks a dimension against the hash of the same name.
func (g *runDAG) checkRepeated(name string, claimed, effective []byte, fromContent bool) {
	if !fromContent && bytes.Equal(claimed, effective) {
		effective = nil // one claim does not prove another
	}
	g.r.check("cache_dimensions."+name, claimed, effective)
}

// preflightHash takes the payload from the builders' arguments or, failing
// them, from the DAG's own sidecar; where there are two, they must agree.
func (g *runDAG) preflightHash(o, arguments object) []byte {
	computed := g.r.preflightHash(arguments)
	dag := object{o.d, o.member("dag"), o.at("dag")}
	beside := g.r.preflightHash(dag)
	if computed == nil {
		return beside
	}
	if beside != nil {
		g.r.check(rules.PreflightCheck, beside, computed)
	}
	return computed
}

func (g *runDAG) questionHash(o object) []byte {
	mode := o.text("question_mode", maxStage)
	if mode != nil && string(mode) != rules.ModeStrict && string(mode) != rules.ModeEquivalence {
		o.d.invalid(o.at("question_mode"), `must be "equivalence_class" or "strict"`)
	}
	question, given := o.wtf("question")
	if !given || string(mode) == rules.ModeEquivalence {
		g.r.implied = "question_mode"
	}
	if !given {
		return nil
	}
	g.r.addContent("question", question)
	g.QuestionMode = []byte(rules.ModeEquivalence)
	if mode != nil {
		g.QuestionMode = mode
	}
	return g.r.hex(rules.QuestionHash(question, string(mode) == rules.ModeStrict))
}

// contentHash is the JSON hash of a member that is kept as content.
func (g *runDAG) contentHash(o object, name string, kind pyjson.Kind) []byte {
	want := "an object"
	if kind == pyjson.Array {
		want = "an array"
	}
	v := o.typed(name, kind, want)
	if !v.Given() {
		return nil
	}
	g.r.addContent(name, v.Raw())
	return g.r.hex(g.r.jsonHash(v))
}

func (g *runDAG) contextRoot(o object) []byte {
	list := o.array("source_roots")
	if !list.Given() {
		return nil
	}
	g.r.addContent("source_roots", list.Raw())
	var roots [][]byte
	for e := range list.Elements() {
		if e.Kind() != pyjson.String || !isDigits(e.Text(), "", 64) {
			o.d.invalid(o.element("source_roots", len(roots)), "must be exactly 64 lower-case hexadecimal digits")
			return nil
		}
		roots = append(roots, e.Text())
	}
	if len(roots) == 0 {
		o.d.invalid(o.at("source_roots"), "must not be empty; leave it out")
		return nil
	}
	return g.r.hex(rules.ContextRoot(roots))
}

func (g *runDAG) evidenceMapRoot(o object) []byte {
	list := o.array("evidence")
	if !list.Given() {
		return nil
	}
	g.r.addContent("evidence", list.Raw())
	var ids [][]byte
	for e := range list.Elements() {
		if o.d.full() {
			return nil
		}
		item := o.d.object(e, o.element("evidence", len(ids)), "chunk_root", "start", "end")
		if !item.member("chunk_root").Given() {
			item.missing("chunk_root")
		}
		ids = append(ids, rules.EvidenceID(item.hash("chunk_root"),
			item.requiredCount(g.r, "start"), item.requiredCount(g.r, "end")))
	}
	if len(ids) == 0 {
		o.d.invalid(o.at("evidence"), "must not be empty; leave it out")
		return nil
	}
	return g.r.hex(rules.EvidenceMapRoot(ids))
}
