package record

import (
	"bytes"
	"crypto/sha256"
	"strconv"

	"colophon/ledger/record/fields"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/ledger/record/strict"
)

// build computes the stages of a quote or pointer run (spec: Stage hashes). The object in contains
// the run's inputs.
func (g *runDAG) build(o, in strict.Object, answer []byte, hasAnswer bool) {
	answer, hasAnswer = answerText(in, o, answer, hasAnswer)
	if !hasAnswer {
		in.ReportMissing("answer_text")
	}
	g.decodeLabels(in)
	list := in.Array("sources")
	if !in.Member("sources").IsGiven() {
		in.ReportMissing("sources")
	}
	g.QuoteCount, g.VerifiedQuoteCount = g.r.readCount(in, "n_quotes"), g.r.readCount(in, "n_verified")
	for _, name := range [...]string{"claim_statuses", "violations"} {
		in.Array(name)
	}
	pointer := g.base["evidence_map_root"] != nil
	g.requireBase(in, "question_hash", "question")
	g.requireBase(in, "conversation_hash", "messages")
	if !pointer {
		g.requireBase(in, "context_root", "source_roots")
	}
	retrieval := g.retrievalHash(in, list)
	if in.Decoder.HasProblems() {
		return
	}
	g.SourceCount = strconv.AppendInt(nil, int64(list.Len()), 10)
	g.FailureStage = rules.FailureStage(in.Member("audit_mode").Text(), g.SourceCount, g.QuoteCount)

	g.baseStage("question")
	if g.base["preflight_hash"] != nil {
		g.baseStage(rules.PreflightStage)
	}
	g.stage("retrieval", retrieval)
	verify := g.r.hex(rules.VerificationHash(in.Value, g.QuoteCount, g.VerifiedQuoteCount, g.FailureStage))
	if pointer {
		g.baseStage("evidence_map")
		g.baseStage("prompt")
		g.stage("raw_answer", g.textHash(in, "raw_answer_text", answer))
		g.stage("parsed_claim_lattice", g.r.hex(rules.LatticeHash(in.Member("parsed_lattice"))))
		g.stage("verify", verify)
		g.stage("render", g.textHash(in, "rendered_text", answer))
		g.claimAnswer(!differs(in, "raw_answer_text", answer) || !differs(in, "rendered_text", answer))
	} else {
		g.baseStage("context")
		g.baseStage("prompt")
		g.stage("answer", g.r.hex(sha256.Sum256(answer)))
		g.stage("verify", verify)
	}
	g.stage("final_label", g.r.hex(rules.FinalLabelHash(in.Value)))
	g.checkVerdict(rules.BrokenVerdictRules(g.AuditMode, g.SourceCount, g.QuoteCount, g.VerifiedQuoteCount))
	g.checkLattice(in.Member("parsed_lattice"))
}

// answerText returns the answer_text member of o, which is inputs or reject_inputs. If o has none,
// it returns text, which is the answer_text of the record itself. If both are given, they must be
// equal.
func answerText(o strict.Object, record strict.Object, text []byte, given bool) ([]byte, bool) {
	own, hasOwn := o.WTF8("answer_text")
	if hasOwn && given && string(own) != string(text) {
		record.ReportInvalid("answer_text", "differs from %s; send the answer only once", o.MemberPointer("answer_text"))
	}
	if hasOwn {
		return own, true
	}
	return text, given
}

// decodeLabels decodes the labels of a run, such as its audit mode. The hashes cover them in WTF-8.
// The event omits labels that are longer than maxName bytes or not valid UTF-8.
func (g *runDAG) decodeLabels(in strict.Object) {
	g.AuditMode = eventText(in.RequiredWTF8("audit_mode"))
	g.VerifierMethod = eventText(in.RequiredWTF8("verifier_method"))
	lookup, _ := in.WTF8("lookup_path")
	mode, _ := in.WTF8("answer_mode")
	g.LookupPath, g.AnswerMode = eventText(lookup), eventText(mode)
}

func (g *runDAG) stage(name string, hash []byte) {
	g.nodes = append(g.nodes, node{stage: name, hash: hash})
}

// baseStage adds the stage with the given name, whose hash is a base hash.
func (g *runDAG) baseStage(stage string) {
	for _, b := range rules.BaseHashes {
		if b.Stage == stage {
			g.nodes = append(g.nodes, node{stage: stage, hash: g.base[b.Name], adopted: !g.fromContent[b.Name]})
		}
	}
}

func (g *runDAG) requireBase(in strict.Object, name, content string) {
	if g.base[name] == nil {
		in.ReportInvalid(name, "is required if the record has no %s", content)
	}
}

// textHash returns the text hash of a member, or of fallback if the member is not given.
func (g *runDAG) textHash(in strict.Object, name string, fallback []byte) []byte {
	text, given := in.WTF8(name)
	if !given {
		text = fallback
	}
	return g.r.hex(sha256.Sum256(text))
}

// differs reports whether the named member is given and differs from text.
func differs(in strict.Object, name string, text []byte) bool {
	own, given := in.WTF8(name)
	return given && !bytes.Equal(own, text)
}

// claimAnswer adds a check with the result ResultClaimed for answer_text, unless a stage covers it.
func (g *runDAG) claimAnswer(covered bool) {
	if !covered {
		g.r.Checks = append(g.r.Checks, Check{Field: rules.AnswerCheckName, Result: ResultClaimed})
	}
}

// retrievalHash returns the hash of the retrieval stage, which covers the sources and, if it is
// given, the hash of the plan.
func (g *runDAG) retrievalHash(in strict.Object, list pyjson.Value) []byte {
	i := 0
	for e := range list.Elements() {
		if e.Kind() != pyjson.Object {
			in.Decoder.ReportInvalid(in.ElementPointer("sources", i), "must be an object")
			return nil
		}
		if root := e.Member("document_root").Text(); rules.IsDigest(root) {
			g.roots = append(g.roots, root)
		}
		i++
	}
	return g.r.hex(rules.RetrievalHash(list, in.Hash("retrieval_plan_hash")))
}

// buildReject computes the stages of a run that preflight rejected (spec: Rejected runs).
func (g *runDAG) buildReject(o, in strict.Object, answer []byte, hasAnswer bool) {
	answer, _ = answerText(in, o, answer, hasAnswer)
	in.RequiredWTF8("rejection_reason")
	in.Array("violations")
	mode, given := in.WTF8("audit_mode")
	if !given {
		mode = []byte(rules.DefaultRejectionAuditMode)
	}
	method, given := in.WTF8("verifier_method")
	if !given {
		method = []byte(rules.DefaultRejectionVerifierMethod)
	}
	g.AuditMode, g.VerifierMethod, g.LookupPath = eventText(mode), eventText(method), []byte(rules.PreflightStage)
	g.requireBase(in, "question_hash", "question")
	if g.base["preflight_hash"] == nil {
		in.ReportInvalid("preflight_hash", "is required if preflight_payload is not given")
	}
	if in.Decoder.HasProblems() {
		return
	}
	g.baseStage("question")
	g.baseStage(rules.PreflightStage)
	g.stage("final_label", g.r.hex(rules.RejectionLabelHash(in.Value, mode, method, answer)))
	g.checkVerdict(rules.BrokenRejectionRules(g.AuditMode))
}

// adopt uses the claimed nodes as the stages of a run that was posted without inputs. It recomputes
// the hash of each stage whose content is in the record.
func (g *runDAG) adopt(claimed []node, answer []byte, hasAnswer bool) {
	seen := make(map[string]bool, len(claimed))
	answerStage := ""
	if hasAnswer {
		answerStage = rules.AnswerStage(stageNames(claimed))
		g.claimAnswer(answerStage != "")
	}
	for _, n := range claimed {
		n.adopted = true
		if hash := g.contentStage(n.stage, answerStage, answer); hash != nil && !seen[n.stage] {
			n.hash, n.adopted = hash, false
		}
		seen[n.stage] = true
		g.nodes = append(g.nodes, n)
	}
}

// contentStage returns the hash of a stage if content alone determines it, and nil otherwise.
// answerStage is the stage that covers the answer, or "" if there is no such stage.
func (g *runDAG) contentStage(stage, answerStage string, answer []byte) []byte {
	if stage == answerStage && stage != "" {
		return g.r.hex(sha256.Sum256(answer))
	}
	for _, b := range rules.BaseHashes {
		if b.Stage == stage && stage != "" && g.fromContent[b.Name] {
			return g.base[b.Name]
		}
	}
	return nil
}

// node is one stage of a run-DAG. Its hash has 64 hexadecimal digits.
type node struct {
	stage   string
	hash    []byte
	adopted bool // whether hash is a claim that could not be recomputed
}

// stageNames returns the names of the nodes' stages, in the same order.
func stageNames(nodes []node) []string {
	stages := make([]string, len(nodes))
	for i, n := range nodes {
		stages[i] = n.stage
	}
	return stages
}

func runRoot(nodes []node) Hash {
	hashes := make([][]byte, len(nodes))
	for i, n := range nodes {
		hashes[i] = n.hash
	}
	return rules.RunRoot(hashes)
}

// preflightHash returns the hash of the member preflight_payload, or nil if it is not given.
func (r *Record) preflightHash(o strict.Object) []byte {
	v := o.MemberOfKind("preflight_payload", pyjson.Object, "an object")
	if !v.IsGiven() {
		return nil
	}
	return r.hex(rules.PreflightHash(v))
}

// decodeDimensions decodes cache_dimensions and returns it as an object, which is absent if
// cache_dimensions is not given.
func (g *runDAG) decodeDimensions(o strict.Object) strict.Object {
	v := o.Member("cache_dimensions")
	if !v.IsGiven() {
		return strict.Object{Decoder: o.Decoder}
	}
	dims := o.Decoder.Object(v, o.MemberPointer("cache_dimensions"), rules.CacheDimensions[:]...)
	g.readDimensions(dims, "")
	return dims
}

// readDimensions decodes the dimensions into g.dimensions. All are required except the last one and
// the one named by optional. If the dimension named by optional is missing, g.dimensions contains
// it without a value.
func (g *runDAG) readDimensions(dims strict.Object, optional string) {
	for i, name := range rules.CacheDimensions {
		if !dims.Member(name).IsGiven() {
			switch {
			case name == optional:
				g.dimensions = append(g.dimensions, dimension{name: name})
			case i < len(rules.CacheDimensions)-1:
				dims.ReportMissing(name)
			}
			continue
		}
		var value []byte
		if rules.IsVersionDimension(name) {
			value = g.version(dims, name)
		} else {
			value = dims.Hash(name)
		}
		if value != nil {
			g.dimensions = append(g.dimensions, dimension{name, value})
		}
	}
}

// version decodes a dimension that is a version: a text or an integer. It returns an integer as
// decimal text.
func (g *runDAG) version(dims strict.Object, name string) []byte {
	if dims.Member(name).Kind() == pyjson.Integer {
		return g.r.readInteger(dims, name, false)
	}
	value, _ := dims.WTF8(name)
	return value
}

// cacheKey computes the cache key and checks the claimed key against it. For a dimension whose hash
// was computed from content, it uses that hash instead of the claimed one.
func (g *runDAG) cacheKey(dimensions strict.Object, claimed []byte) []byte {
	if len(g.dimensions) == 0 {
		return g.r.check("cache_key", claimed, nil)
	}
	for _, name := range rules.ClaimOnlyDimensions {
		*g.HashField(name) = g.r.check(name, dimensions.Hash(name), nil)
	}
	values := make([][]byte, len(g.dimensions))
	for i, d := range g.dimensions {
		if g.fromContent[d.name] {
			d.value = g.base[d.name]
		}
		values[i] = d.value
		g.CacheDimensions = append(g.CacheDimensions, fields.NamedHash{Name: []byte(d.name), Hash: eventText(d.value)})
	}
	return g.r.check("cache_key", claimed, g.r.hex(rules.CacheKey(values)))
}

// dimension is one dimension of the cache key.
type dimension struct {
	name  string
	value []byte
}

// finish checks the claimed DAG and the claimed cache key against the effective nodes, and sets the
// fields of the event.
func (g *runDAG) finish(claimed []node, claimedRoot []byte, dimensions strict.Object, cacheKey []byte) {
	stages := stageNames(g.nodes)
	g.DocumentRoots = distinctMatches(rules.IsDigest, g.roots)
	g.EvidenceIDs = distinctMatches(rules.IsEvidenceID, g.evidence, g.cited)
	g.Shape, g.PreflightStatus = []byte(rules.RunShape(stages)), []byte(rules.PreflightStatus(stages))
	for _, n := range g.nodes {
		g.Stages = append(g.Stages, fields.NamedHash{Name: []byte(n.stage), Hash: n.hash})
	}
	if claimed != nil {
		g.checkStages(claimed)
	}
	g.Root = g.r.check("root", claimedRoot, g.r.hex(runRoot(g.nodes)))
	g.CacheKey = g.cacheKey(dimensions, cacheKey)
	for _, b := range rules.BaseHashes {
		*g.HashField(b.Name) = g.base[b.Name]
	}
}

// hashOf returns the hash of the first stage with the given name, or nil if there is none.
func hashOf(nodes []node, stage string) []byte {
	for _, n := range nodes {
		if n.stage == stage && stage != "" {
			return n.hash
		}
	}
	return nil
}

// checkStages adds the checks that compare the claimed nodes with the effective nodes of the same
// name.
func (g *runDAG) checkStages(claimed []node) {
	effective := make(map[string]node, len(g.nodes))
	names := rules.StageCheckNames(stageNames(g.nodes))
	for i, n := range g.nodes {
		effective[names[i]] = n
	}
	for i, field := range rules.StageCheckNames(stageNames(claimed)) {
		n, built := effective[field]
		switch {
		case !built:
			g.r.Checks = append(g.r.Checks, Check{Field: field, Result: ResultMismatch, Claimed: claimed[i].hash})
		case n.adopted && bytes.Equal(n.hash, claimed[i].hash):
			g.r.check(field, n.hash, nil) // one claim does not prove another
		default:
			g.r.check(field, claimed[i].hash, n.hash)
		}
		delete(effective, field)
	}
	for _, field := range names {
		switch n, left := effective[field]; {
		case left && n.adopted:
			g.r.check(field, n.hash, nil)
		case left:
			g.r.check(field, nil, n.hash)
		}
	}
}
