package record

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strconv"

	"colophon/ledger/record/fields"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/ledger/record/strict"
)

// runDAG is a run-DAG that is being decoded.
type runDAG struct {
	fields.RunDAG
	r *Record
	// base maps the names of base hashes to their effective values, from which the stages and the cache
	// key are computed. fromContent is true for each name whose hash was computed from content.
	base        map[string][]byte
	fromContent map[string]bool

	nodes      []node
	dimensions []dimension // dimensions of the cache key, in the order of rules.CacheDimensions
	evidence   [][]byte    // computed evidence ids, and claimed ones that differ from them
	roots      [][]byte    // document roots of the run's sources
	cited      [][]byte    // evidence ids that the run's lattice cites
}

// ShapeAndFailureStage returns the shape and the failure stage of a run-DAG as they appear in its
// event, encoded as JSON (spec: Failure stage). It returns nil for records of other kinds.
func (r *Record) ShapeAndFailureStage() (shape, failureStage []byte) {
	f, ok := r.fields.(*fields.RunDAG)
	if !ok {
		return nil, nil
	}
	shape = pyjson.AppendString(nil, f.Shape)
	if f.FailureStage == nil {
		return shape, []byte("null")
	}
	return shape, pyjson.AppendString(nil, f.FailureStage)
}

// decodeRunDAG decodes a run-DAG, computes everything that its content determines (spec: Run-DAG),
// and checks the claims stage by stage. Problems are added to d.
func (r *Record) decodeRunDAG(d *strict.Decoder, v pyjson.Value, pointer string) {
	o := d.Object(v, pointer, "run_id", "dag", "inputs", "reject_inputs", "question", "question_mode",
		"answer_text", "messages", "policy", "verifier_policy", "source_roots", "evidence", "cache_dimensions",
		"cache_key", "timestamp", "labels", "producer")
	r.decodeCommon(o)
	g := &runDAG{r: r, base: make(map[string][]byte), fromContent: make(map[string]bool)}
	r.fields = &g.RunDAG

	claimed, claimedRoot := g.decodeDAG(o)
	arguments := g.arguments(o)
	dimensions := g.decodeDimensions(o)
	g.decodeBase(o, arguments, dimensions, claimed)
	cacheKey := o.Hash("cache_key")
	answer, hasAnswer := o.WTF8("answer_text")
	if hasAnswer {
		r.addContent("answer_text", answer)
	}
	switch {
	case d.HasProblems():
		return
	case o.Member("inputs").IsGiven():
		g.build(o, arguments, answer, hasAnswer)
	case o.Member("reject_inputs").IsGiven():
		g.buildReject(o, arguments, answer, hasAnswer)
	case claimed != nil:
		g.adopt(claimed, answer, hasAnswer)
	default:
		o.ReportInvalid("dag", "is required if neither inputs nor reject_inputs is given")
	}
	if d.HasProblems() {
		return
	}
	g.finish(claimed, claimedRoot, dimensions, cacheKey)
}

// decodeDAG decodes the DAG that the service built. It returns nil if the record has none.
func (g *runDAG) decodeDAG(o strict.Object) (nodes []node, root []byte) {
	v := o.Member("dag")
	if !v.IsGiven() {
		return nil, nil
	}
	g.r.addContent("dag", v.Raw())
	dag := o.Decoder.Object(v, o.MemberPointer("dag"), "root", "nodes", "preflight_payload")
	if !dag.Member("root").IsGiven() {
		dag.ReportMissing("root")
	}
	root = dag.Hash("root")
	list := dag.Array("nodes")
	if list.Len() == 0 {
		dag.ReportInvalid("nodes", "must have at least one stage")
	}
	if !fitsEntry(dag, "nodes", list, 64+len(`{"hash":"","stage":""},`), "split the DAG into several records") {
		return nil, nil
	}
	for e := range list.Elements() {
		if o.Decoder.IsFull() {
			return nil, nil
		}
		n := o.Decoder.Object(e, dag.ElementPointer("nodes", len(nodes)), "stage", "hash")
		if !n.Member("hash").IsGiven() {
			n.ReportMissing("hash")
		}
		nodes = append(nodes, node{stage: string(n.RequiredText("stage", maxStage)), hash: n.Hash("hash")})
	}
	return nodes, root
}

// arguments returns the member inputs or reject_inputs as an object, or an absent object if neither
// is given.
func (g *runDAG) arguments(o strict.Object) strict.Object {
	inputs, reject := o.Member("inputs"), o.Member("reject_inputs")
	switch {
	case inputs.IsGiven() && reject.IsGiven():
		o.ReportInvalid("reject_inputs", `cannot be combined with "inputs"; a run can have only one of the two`)
	case inputs.IsGiven():
		g.r.addContent("inputs", inputs.Raw())
		return o.Decoder.Object(inputs, o.MemberPointer("inputs"), "question_hash", "preflight_hash", "preflight_payload", "context_root",
			"evidence_map_root", "conversation_hash", "answer_text", "raw_answer_text", "rendered_text",
			"parsed_lattice", "audit_mode", "verifier_method", "n_quotes", "n_verified", "sources",
			"retrieval_plan_hash", "lookup_path", "claim_statuses", "violations", "answer_mode")
	case reject.IsGiven():
		g.r.addContent("reject_inputs", reject.Raw())
		return o.Decoder.Object(reject, o.MemberPointer("reject_inputs"), "question_hash", "preflight_hash", "preflight_payload",
			"rejection_reason", "answer_text", "violations", "audit_mode", "verifier_method")
	}
	return strict.Object{Decoder: o.Decoder}
}

// decodeBase computes the base hashes from content, compares them with the claims, and sets g.base
// and g.fromContent.
func (g *runDAG) decodeBase(o, arguments, dimensions strict.Object, claimed []node) {
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

// baseClaim is a claimed base hash.
type baseClaim struct {
	hash     []byte // nil if there is no claim
	pointer  string // JSON pointer to hash in the request body
	checked  bool   // whether hash is a stage's hash, which the check of that stage covers
	repeated []byte // the dimension of the same name, unless hash comes from that dimension
}

// claimOf returns the claim for the named base hash. It prefers the hash in inputs or
// reject_inputs. If neither of these members is given, it uses stage, the hash of the claimed
// stage. Otherwise, or if stage is nil, it uses the dimension of the cache key. stage is nil if the
// stage was not claimed.
func claimOf(name string, stage []byte, arguments, dimensions strict.Object) baseClaim {
	dimension := dimensions.Hash(name)
	if claim := arguments.Hash(name); claim != nil {
		return baseClaim{hash: claim, pointer: arguments.MemberPointer(name), repeated: dimension}
	}
	if stage != nil && arguments.Value.Kind() == pyjson.Absent {
		return baseClaim{hash: stage, checked: true, repeated: dimension}
	}
	return baseClaim{hash: dimension, pointer: dimensions.MemberPointer(name)}
}

// checkRepeated checks a claimed dimension of the cache key against the effective hash of the same
// name.
func (g *runDAG) checkRepeated(name string, claimed, effective []byte, fromContent bool) {
	if !fromContent && bytes.Equal(claimed, effective) {
		effective = nil // one claim does not prove another
	}
	g.r.check("cache_dimensions."+name, claimed, effective)
}

// preflightHash returns the hash of the preflight payload in inputs or reject_inputs. If that
// payload is not given, it uses the one in dag. If both are given, it adds a check that compares
// their hashes.
func (g *runDAG) preflightHash(o, arguments strict.Object) []byte {
	computed := g.r.preflightHash(arguments)
	dag := o.InnerObject("dag", o.Member("dag"))
	dagHash := g.r.preflightHash(dag)
	from := arguments
	if computed == nil {
		from = dag
	}
	if payload := from.Member("preflight_payload"); payload.Kind() == pyjson.Object {
		g.PreflightGeneration = rules.PreflightGeneration(payload, maxStage)
	}
	if computed == nil {
		return dagHash
	}
	if dagHash != nil {
		g.r.check(rules.PreflightCheckName, dagHash, computed)
	}
	return computed
}

func (g *runDAG) questionHash(o strict.Object) []byte {
	mode := o.Text("question_mode", maxStage)
	if mode != nil && string(mode) != rules.QuestionModeStrict && string(mode) != rules.QuestionModeEquivalence {
		o.ReportInvalid("question_mode", `must be "equivalence_class" or "strict"`)
	}
	question, given := o.WTF8("question")
	if !given || string(mode) == rules.QuestionModeEquivalence {
		g.r.implied = "question_mode"
	}
	if !given {
		return nil
	}
	g.r.addContent("question", question)
	g.QuestionMode = []byte(rules.QuestionModeEquivalence)
	if mode != nil {
		g.QuestionMode = mode
	}
	return g.r.hex(rules.QuestionHash(question, string(mode) == rules.QuestionModeStrict))
}

// contentHash returns the JSON hash of a member and adds the member to the content. It returns nil
// if the member is not given.
func (g *runDAG) contentHash(o strict.Object, name string, kind pyjson.Kind) []byte {
	want := "an object"
	if kind == pyjson.Array {
		want = "an array"
	}
	v := o.MemberOfKind(name, kind, want)
	if !v.IsGiven() {
		return nil
	}
	g.r.addContent(name, v.Raw())
	return g.r.hex(g.r.jsonHash(v))
}

func (g *runDAG) contextRoot(o strict.Object) []byte {
	list := o.Array("source_roots")
	if !list.IsGiven() {
		return nil
	}
	g.r.addContent("source_roots", list.Raw())
	var roots [][]byte
	for e := range list.Elements() {
		if e.Kind() != pyjson.String || !strict.IsHexDigits(e.Text(), "", 64) {
			o.Decoder.ReportInvalid(o.ElementPointer("source_roots", len(roots)), "must be exactly 64 lower-case hexadecimal digits")
			return nil
		}
		roots = append(roots, e.Text())
	}
	if len(roots) == 0 {
		o.ReportInvalid("source_roots", "must not be empty; omit this member")
		return nil
	}
	g.roots = append(g.roots, roots...)
	return g.r.hex(rules.ContextRoot(roots))
}

func (g *runDAG) evidenceMapRoot(o strict.Object) []byte {
	list := o.Array("evidence")
	if !list.IsGiven() {
		return nil
	}
	g.r.addContent("evidence", list.Raw())
	var ids [][]byte
	for e := range list.Elements() {
		if o.Decoder.IsFull() {
			return nil
		}
		ids = append(ids, g.evidenceID(o, e, len(ids)))
	}
	if len(ids) == 0 {
		o.ReportInvalid("evidence", "must not be empty; omit this member")
		return nil
	}
	return g.r.hex(rules.EvidenceMapRoot(ids))
}

// evidencePrefix is the prefix of the names of evidence checks.
const evidencePrefix = "evidence/"

// evidenceID returns the ID of v, which is element i of the evidence. It checks the claimed
// evidence_id in v, and the claimed text_hash against the text hash of span. v may have other
// members, which no hash covers.
func (g *runDAG) evidenceID(o strict.Object, v pyjson.Value, i int) []byte {
	item := strict.Object{Decoder: o.Decoder, Value: v, Pointer: o.ElementPointer("evidence", i)}
	if v.Kind() != pyjson.Object {
		o.Decoder.ReportInvalid(item.Pointer, "must be an object")
		return nil
	}
	if !item.Member("chunk_root").IsGiven() {
		item.ReportMissing("chunk_root")
	}
	id := rules.EvidenceID(item.Hash("chunk_root"), g.r.readCount(item, "start"), g.r.readCount(item, "end"))
	g.evidence = append(g.evidence, id)
	name := evidencePrefix + strconv.Itoa(i)
	if claim := item.Text("evidence_id", maxStage); claim != nil {
		g.r.check(name+"/evidence_id", claim, id)
		if !bytes.Equal(claim, id) {
			g.evidence = append(g.evidence, claim)
		}
	}
	if claim := item.Hash("text_hash"); claim != nil {
		var computed []byte
		if span, given := item.WTF8("span"); given {
			computed = g.r.hex(sha256.Sum256(span))
		}
		g.r.check(name+"/text_hash", claim, computed)
	}
	return id
}

// distinctMatches returns the distinct texts in lists for which valid returns true, in sorted order. It
// returns nil if there are none or more than fields.MaxSetElements.
func distinctMatches(valid func([]byte) bool, lists ...[][]byte) [][]byte {
	all := slices.DeleteFunc(slices.Concat(lists...), func(text []byte) bool { return !valid(text) })
	slices.SortFunc(all, bytes.Compare)
	if all = slices.CompactFunc(all, bytes.Equal); len(all) == 0 || len(all) > fields.MaxSetElements {
		return nil
	}
	return all
}

// checkVerdict adds a check with the result ResultInconsistent for each of the broken rules.
func (g *runDAG) checkVerdict(broken []string) {
	for _, rule := range broken {
		g.r.Checks = append(g.r.Checks, Check{Field: rules.VerdictCheckPrefix + rule, Result: ResultInconsistent})
	}
}

// checkLattice adds a check if the lattice cites evidence that the record does not contain. It adds
// no check if the record contains no evidence.
func (g *runDAG) checkLattice(lattice pyjson.Value) {
	g.cited = rules.CitedEvidenceIDs(lattice)
	if g.evidence == nil {
		return
	}
	for _, id := range g.cited {
		if !slices.ContainsFunc(g.evidence, func(known []byte) bool { return bytes.Equal(known, id) }) {
			g.checkVerdict([]string{rules.VerdictLatticeWithoutEvidence})
			return
		}
	}
}
