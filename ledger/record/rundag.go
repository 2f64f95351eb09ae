package record

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strconv"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/ledger/record/strict"
)

// StageField is one node of a run-DAG, or one dimension of its cache key. For a dimension,
// Hash is its value, or nil for null.
type StageField struct{ Name, Hash []byte }

// RunFields are the fields of a run_dag event (spec: Run-DAG hashes). Fields that are null or
// missing are nil.
type RunFields struct {
	Root, QuestionHash, CacheKey []byte

	PreflightHash, ContextRoot, EvidenceMapRoot, ConversationHash []byte
	GovernancePolicyHash, VerifierPolicyHash                      []byte
	SourceRoot, ModelProfileHash                                  []byte

	Stages []StageField
	// Dimensions are the dimensions of the cache key, by name.
	Dimensions []StageField

	Shape, FailureStage, Preflight []byte
	// PreflightGeneration names the generation of a preflight payload. It is nil for the
	// current generation (spec: Preflight payload).
	PreflightGeneration                               []byte
	AuditMode, VerifierMethod, LookupPath, AnswerMode []byte
	Quotes, Verified, Sources                         []byte // decimal
	QuestionMode                                      []byte

	// DocumentRoots and EvidenceIDs are distinct and sorted. A list is nil if it would have
	// more than MaxFound elements (spec: Run-DAG).
	DocumentRoots, EvidenceIDs [][]byte
}

// MaxFound bounds the document roots and the evidence ids by which a run-DAG can be found.
const MaxFound = 256

// runHashes are the names of the hashes of a run.
var runHashes = [...]string{
	"cache_key", "context_root", "conversation_hash", "evidence_map_root", "governance_policy_hash", "model_profile_hash",
	"preflight_hash", "question_hash", "root", "source_root", "verifier_policy_hash",
}

// Hash returns a pointer to the effective hash with that name, or nil if no run has such a
// hash.
func (f *RunFields) Hash(name string) *[]byte {
	switch name {
	case "cache_key":
		return &f.CacheKey
	case "context_root":
		return &f.ContextRoot
	case "conversation_hash":
		return &f.ConversationHash
	case "evidence_map_root":
		return &f.EvidenceMapRoot
	case "governance_policy_hash":
		return &f.GovernancePolicyHash
	case "model_profile_hash":
		return &f.ModelProfileHash
	case "preflight_hash":
		return &f.PreflightHash
	case "question_hash":
		return &f.QuestionHash
	case "root":
		return &f.Root
	case "source_root":
		return &f.SourceRoot
	case "verifier_policy_hash":
		return &f.VerifierPolicyHash
	}
	return nil
}

// Dimension returns the value of a dimension of the cache key. given is false if the run has
// no cache key or its key lacks the dimension.
func (f *RunFields) Dimension(name string) (value []byte, given bool) {
	for _, d := range f.Dimensions {
		if string(d.Name) == name {
			return d.Hash, true
		}
	}
	return nil, false
}

// StageNames returns the names of the stages in their order.
func (f *RunFields) StageNames() []string {
	names := make([]string, len(f.Stages))
	for i, s := range f.Stages {
		names[i] = string(s.Name)
	}
	return names
}

// runDAG is a run-DAG during decoding.
type runDAG struct {
	RunFields
	r *Record
	// base has the effective hashes from which the stages and the cache key are computed.
	// fromContent is true for those that were recomputed from content.
	base        map[string][]byte
	fromContent map[string]bool

	nodes      []node
	dimensions []dimension // of the cache key, in the order in which the key joins them
	evidence   [][]byte    // the ids of the evidence: computed ones, and claimed ones that differ
	roots      [][]byte    // of the documents in its sources
	cited      [][]byte    // evidence ids that its lattice cites
}

// RunShape returns the shape and the failure stage of a run-DAG (spec: Failure stage) in
// canonical JSON, as in its event. It returns nil for other kinds.
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

// decodeRunDAG reads a run-DAG, recomputes all that its content determines (spec: Run-DAG),
// and checks it stage by stage.
func (r *Record) decodeRunDAG(d *strict.Decoder, v pyjson.Value, pointer string) {
	o := d.Object(v, pointer, "run_id", "dag", "inputs", "reject_inputs", "question", "question_mode",
		"answer_text", "messages", "policy", "verifier_policy", "source_roots", "evidence", "cache_dimensions",
		"cache_key", "timestamp", "labels", "producer")
	r.decodeCommon(o)
	g := &runDAG{r: r, base: make(map[string][]byte), fromContent: make(map[string]bool)}
	r.fields = &g.RunFields

	claimed, claimedRoot := g.decodeDAG(o)
	arguments := g.arguments(o)
	dimensions := g.decodeDimensions(o)
	g.decodeBase(o, arguments, dimensions, claimed)
	cacheKey := o.Hash("cache_key")
	answer, hasAnswer := o.WTF("answer_text")
	if hasAnswer {
		r.addContent("answer_text", answer)
	}
	switch {
	case d.Failed():
		return
	case o.Member("inputs").Given():
		g.build(o, arguments, answer, hasAnswer)
	case o.Member("reject_inputs").Given():
		g.buildReject(o, arguments, answer, hasAnswer)
	case claimed != nil:
		g.adopt(claimed, answer, hasAnswer)
	default:
		o.Invalid("dag", "is required if neither inputs nor reject_inputs is given")
	}
	if d.Failed() {
		return
	}
	g.finish(claimed, claimedRoot, dimensions, cacheKey)
}

// decodeDAG reads the DAG that the service built.
func (g *runDAG) decodeDAG(o strict.Object) (nodes []node, root []byte) {
	v := o.Member("dag")
	if !v.Given() {
		return nil, nil
	}
	g.r.addContent("dag", v.Raw())
	dag := o.D.Object(v, o.At("dag"), "root", "nodes", "preflight_payload")
	if !dag.Member("root").Given() {
		dag.Missing("root")
	}
	root = dag.Hash("root")
	list := dag.Array("nodes")
	if list.Len() == 0 {
		dag.Invalid("nodes", "must have at least one stage")
	}
	if !fitsEntry(dag, "nodes", list, 64+len(`{"hash":"","stage":""},`), "split it into several records") {
		return nil, nil
	}
	for e := range list.Elements() {
		if o.D.Full() {
			return nil, nil
		}
		n := o.D.Object(e, dag.Element("nodes", len(nodes)), "stage", "hash")
		if !n.Member("hash").Given() {
			n.Missing("hash")
		}
		nodes = append(nodes, node{stage: string(n.RequiredText("stage", maxStage)), hash: n.Hash("hash")})
	}
	return nodes, root
}

// arguments returns inputs or reject_inputs, or an empty object if neither is given.
func (g *runDAG) arguments(o strict.Object) strict.Object {
	inputs, reject := o.Member("inputs"), o.Member("reject_inputs")
	switch {
	case inputs.Given() && reject.Given():
		o.Invalid("reject_inputs", "cannot be given together with inputs; a run has one shape")
	case inputs.Given():
		g.r.addContent("inputs", inputs.Raw())
		return o.D.Object(inputs, o.At("inputs"), "question_hash", "preflight_hash", "preflight_payload", "context_root",
			"evidence_map_root", "conversation_hash", "answer_text", "raw_answer_text", "rendered_text",
			"parsed_lattice", "audit_mode", "verifier_method", "n_quotes", "n_verified", "sources",
			"retrieval_plan_hash", "lookup_path", "claim_statuses", "violations", "answer_mode")
	case reject.Given():
		g.r.addContent("reject_inputs", reject.Raw())
		return o.D.Object(reject, o.At("reject_inputs"), "question_hash", "preflight_hash", "preflight_payload",
			"rejection_reason", "answer_text", "violations", "audit_mode", "verifier_method")
	}
	return strict.Object{D: o.D}
}

// decodeBase recomputes the base hashes from content and checks the claims that claimOf finds.
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

// baseClaim is the claim of a base hash in a record.
type baseClaim struct {
	hash     []byte // nil if there is no claim
	pointer  string // to hash in the request
	checked  bool   // hash is the hash of a stage, and is checked as such
	repeated []byte // the dimension of the same name, unless hash comes from there
}

// claimOf returns the claim in inputs or reject_inputs, or else the hash of the claimed stage,
// or else the cache dimension.
func claimOf(name string, stage []byte, arguments, dimensions strict.Object) baseClaim {
	dimension := dimensions.Hash(name)
	if claim := arguments.Hash(name); claim != nil {
		return baseClaim{hash: claim, pointer: arguments.At(name), repeated: dimension}
	}
	if stage != nil && arguments.V.Kind() == pyjson.Absent {
		return baseClaim{hash: stage, checked: true, repeated: dimension}
	}
	return baseClaim{hash: dimension, pointer: dimensions.At(name)}
}

// checkRepeated checks a dimension against the hash of the same name.
func (g *runDAG) checkRepeated(name string, claimed, effective []byte, fromContent bool) {
	if !fromContent && bytes.Equal(claimed, effective) {
		effective = nil // one claim does not prove another
	}
	g.r.check("cache_dimensions."+name, claimed, effective)
}

// preflightHash returns the hash of the payload in inputs or reject_inputs, or else in the
// DAG. If both have a payload, a check compares them.
func (g *runDAG) preflightHash(o, arguments strict.Object) []byte {
	computed := g.r.preflightHash(arguments)
	dag := o.Inner("dag", o.Member("dag"))
	beside := g.r.preflightHash(dag)
	from := arguments
	if computed == nil {
		from = dag
	}
	if payload := from.Member("preflight_payload"); payload.Kind() == pyjson.Object {
		g.PreflightGeneration = rules.PreflightGeneration(payload, maxStage)
	}
	if computed == nil {
		return beside
	}
	if beside != nil {
		g.r.check(rules.PreflightCheck, beside, computed)
	}
	return computed
}

func (g *runDAG) questionHash(o strict.Object) []byte {
	mode := o.Text("question_mode", maxStage)
	if mode != nil && string(mode) != rules.ModeStrict && string(mode) != rules.ModeEquivalence {
		o.Invalid("question_mode", `must be "equivalence_class" or "strict"`)
	}
	question, given := o.WTF("question")
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

// contentHash returns the JSON hash of a member, and stores the member as content.
func (g *runDAG) contentHash(o strict.Object, name string, kind pyjson.Kind) []byte {
	want := "an object"
	if kind == pyjson.Array {
		want = "an array"
	}
	v := o.Typed(name, kind, want)
	if !v.Given() {
		return nil
	}
	g.r.addContent(name, v.Raw())
	return g.r.hex(g.r.jsonHash(v))
}

func (g *runDAG) contextRoot(o strict.Object) []byte {
	list := o.Array("source_roots")
	if !list.Given() {
		return nil
	}
	g.r.addContent("source_roots", list.Raw())
	var roots [][]byte
	for e := range list.Elements() {
		if e.Kind() != pyjson.String || !strict.IsDigits(e.Text(), "", 64) {
			o.D.Invalid(o.Element("source_roots", len(roots)), "must be exactly 64 lower-case hexadecimal digits")
			return nil
		}
		roots = append(roots, e.Text())
	}
	if len(roots) == 0 {
		o.Invalid("source_roots", "must not be empty; leave it out")
		return nil
	}
	g.roots = append(g.roots, roots...)
	return g.r.hex(rules.ContextRoot(roots))
}

func (g *runDAG) evidenceMapRoot(o strict.Object) []byte {
	list := o.Array("evidence")
	if !list.Given() {
		return nil
	}
	g.r.addContent("evidence", list.Raw())
	var ids [][]byte
	for e := range list.Elements() {
		if o.D.Full() {
			return nil
		}
		ids = append(ids, g.evidenceID(o, e, len(ids)))
	}
	if len(ids) == 0 {
		o.Invalid("evidence", "must not be empty; leave it out")
		return nil
	}
	return g.r.hex(rules.EvidenceMapRoot(ids))
}

// evidencePrefix begins the names of the checks of evidence.
const evidencePrefix = "evidence/"

// evidenceID returns the id of element i of the evidence. It checks the claims of the element:
// evidence_id, and text_hash, which is the text hash of span. Other members are allowed, and
// no hash covers them.
func (g *runDAG) evidenceID(o strict.Object, v pyjson.Value, i int) []byte {
	item := strict.Object{D: o.D, V: v, Pointer: o.Element("evidence", i)}
	if v.Kind() != pyjson.Object {
		o.D.Invalid(item.Pointer, "must be an object")
		return nil
	}
	if !item.Member("chunk_root").Given() {
		item.Missing("chunk_root")
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
		if span, given := item.WTF("span"); given {
			computed = g.r.hex(sha256.Sum256(span))
		}
		g.r.check(name+"/text_hash", claim, computed)
	}
	return id
}

// found returns the distinct texts of the lists that pass is, sorted. It returns nil if there
// are more than MaxFound.
func found(is func([]byte) bool, lists ...[][]byte) [][]byte {
	all := slices.DeleteFunc(slices.Concat(lists...), func(text []byte) bool { return !is(text) })
	slices.SortFunc(all, bytes.Compare)
	if all = slices.CompactFunc(all, bytes.Equal); len(all) == 0 || len(all) > MaxFound {
		return nil
	}
	return all
}

// checkVerdict adds a check for each rule that the verdict breaks.
func (g *runDAG) checkVerdict(broken []string) {
	for _, rule := range broken {
		g.r.Checks = append(g.r.Checks, Check{Field: rules.VerdictPrefix + rule, Result: Inconsistent})
	}
}

// checkLattice reports a broken rule if the lattice cites evidence that the record lacks. It
// checks nothing if the record has no evidence.
func (g *runDAG) checkLattice(lattice pyjson.Value) {
	g.cited = rules.CitedEvidence(lattice)
	if g.evidence == nil {
		return
	}
	for _, id := range g.cited {
		if !slices.ContainsFunc(g.evidence, func(known []byte) bool { return bytes.Equal(known, id) }) {
			g.checkVerdict([]string{rules.LatticeWithoutEvidence})
			return
		}
	}
}

// Check implements Fields.
func (f *RunFields) Check() error {
	var c forms
	c.requiredHash("root", f.Root)
	for _, name := range runHashes {
		c.hash(name, *f.Hash(name))
	}
	for _, s := range f.Stages {
		c.required("stage", s.Name, maxStage)
		c.requiredHash("hash of a stage", s.Hash)
	}
	c.text("answer_mode", f.AnswerMode, maxName)
	c.text("audit_mode", f.AuditMode, maxName)
	c.text("lookup_path", f.LookupPath, maxName)
	c.text("verifier_method", f.VerifierMethod, maxName)
	c.count("n_quotes", f.Quotes)
	c.count("n_sources", f.Sources)
	c.count("n_verified", f.Verified)
	c.required("preflight", f.Preflight, maxName)
	c.text("preflight_generation", f.PreflightGeneration, maxStage)
	c.required("shape", f.Shape, maxName)
	c.found("document_roots", f.DocumentRoots, rules.IsDigest)
	c.found("evidence_ids", f.EvidenceIDs, rules.IsEvidenceID)
	if len(f.Dimensions) == 0 {
		return c.err
	}
	for i, name := range rules.Dimensions {
		value, given := f.Dimension(name)
		switch {
		case !given && i < len(rules.Dimensions)-1:
			c.required("cache_dimensions/"+name, nil, 0)
		case rules.IsVersion(name):
			c.text("cache_dimensions/"+name, value, maxName)
		case given:
			c.requiredHash("cache_dimensions/"+name, value)
		}
	}
	return c.err
}

func (f *RunFields) append(w *pyjson.Builder, c *CommonFields) {
	w.OpenOrdered()
	w.Text("answer_mode", f.AnswerMode)
	w.Text("audit_mode", f.AuditMode)
	f.appendDimensions(w)
	c.appendContents(w)
	w.Digest("digest", c.Digest)
	if f.DocumentRoots != nil {
		w.Texts("document_roots", f.DocumentRoots)
	}
	if f.EvidenceIDs != nil {
		w.Texts("evidence_ids", f.EvidenceIDs)
	}
	w.Nullable("failure_stage", f.FailureStage)
	c.appendHashes(w, f)
	c.appendKey(w)
	w.Value("labels", c.Labels)
	w.Text("lookup_path", f.LookupPath)
	w.Raw("n_quotes", f.Quotes)
	w.Raw("n_sources", f.Sources)
	w.Raw("n_verified", f.Verified)
	w.Name("nodes")
	w.B = append(w.B, '[')
	for i, n := range f.Stages {
		w.Comma(i)
		w.OpenOrdered()
		w.Text("hash", n.Hash)
		w.Text("stage", n.Name)
		w.Close()
	}
	w.B = append(w.B, ']')
	w.Text("preflight", f.Preflight)
	w.Text("preflight_generation", f.PreflightGeneration)
	c.Producer.append(w)
	w.Text("question_mode", f.QuestionMode)
	w.Text("run_id", c.RunID)
	w.Text("shape", f.Shape)
	w.Text("timestamp", c.Timestamp)
	w.Text("verifier_method", f.VerifierMethod)
	w.Close()
}

func (f *RunFields) appendDimensions(w *pyjson.Builder) {
	if len(f.Dimensions) == 0 {
		return
	}
	w.Name("cache_dimensions")
	w.Open()
	for _, d := range f.Dimensions {
		w.Nullable(string(d.Name), d.Hash)
	}
	w.Close()
}

func (f *RunFields) appendHashes(w *pyjson.Builder) {
	for _, name := range runHashes {
		w.Text(name, *f.Hash(name))
	}
}
