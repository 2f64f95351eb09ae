package record

import (
	"crypto/sha256"
	"strconv"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// build makes the stages of a quote or pointer run from its inputs (spec: Stage hashes).
func (g *runDAG) build(o, in object, answer []byte, hasAnswer bool) {
	answer, hasAnswer = in.answer(o, answer, hasAnswer)
	if !hasAnswer {
		in.missing("answer_text")
	}
	g.decodeLabels(in)
	list := in.array("sources")
	if !in.member("sources").Given() {
		in.missing("sources")
	}
	g.Quotes, g.Verified = in.requiredCount(g.r, "n_quotes"), in.requiredCount(g.r, "n_verified")
	for _, name := range [...]string{"claim_statuses", "violations"} {
		in.array(name)
	}
	pointer := g.base["evidence_map_root"] != nil
	g.requireBase(in, "question_hash", "question")
	g.requireBase(in, "conversation_hash", "messages")
	if !pointer {
		g.requireBase(in, "context_root", "source_roots")
	}
	retrieval := g.retrievalHash(in, list)
	if in.d.failed() {
		return
	}
	g.Sources = strconv.AppendInt(nil, int64(list.Len()), 10)
	g.FailureStage = rules.FailureStage(in.member("audit_mode").Text(), g.Sources, g.Quotes)

	g.baseStage("question")
	if g.base["preflight_hash"] != nil {
		g.baseStage(rules.Preflight)
	}
	g.stage("retrieval", retrieval)
	verify := g.r.hex(rules.VerifyHash(in.v, g.Quotes, g.Verified, g.FailureStage))
	if pointer {
		g.baseStage("evidence_map")
		g.baseStage("prompt")
		g.stage("raw_answer", g.textHash(in, "raw_answer_text", answer))
		g.stage("parsed_claim_lattice", g.r.hex(rules.LatticeHash(in.member("parsed_lattice"))))
		g.stage("verify", verify)
		g.stage("render", g.textHash(in, "rendered_text", answer))
	} else {
		g.baseStage("context")
		g.baseStage("prompt")
		g.stage("answer", g.r.hex(sha256.Sum256(answer)))
		g.stage("verify", verify)
	}
	g.stage("final_label", g.r.hex(rules.LabelHash(in.v)))
}

// answer is the answer_text of the builders' arguments or, failing that, the
// record's; where there are two, they must agree.
func (o object) answer(record object, text []byte, given bool) ([]byte, bool) {
	own, hasOwn := o.wtf("answer_text")
	if hasOwn && given && string(own) != string(text) {
		o.d.invalid(record.at("answer_text"), "differs from %s; send it once", o.at("answer_text"))
	}
	if hasOwn {
		return own, true
	}
	return text, given
}

// decodeLabels reads the words that a run is labelled with. They are hashed as
// WTF-8 and enter the event only where they fit.
func (g *runDAG) decodeLabels(in object) {
	g.AuditMode = eventText(in.requiredWTF("audit_mode"))
	g.VerifierMethod = eventText(in.requiredWTF("verifier_method"))
	lookup, _ := in.wtf("lookup_path")
	mode, _ := in.wtf("answer_mode")
	g.LookupPath, g.AnswerMode = eventText(lookup), eventText(mode)
}

func (g *runDAG) stage(name string, hash []byte) {
	g.nodes = append(g.nodes, node{stage: name, hash: hash})
}

// baseStage adds a stage that carries a base hash as it is.
func (g *runDAG) baseStage(stage string) {
	for _, b := range rules.BaseHashes {
		if b.Stage == stage {
			g.nodes = append(g.nodes, node{stage: stage, hash: g.base[b.Name], adopted: !g.fromContent[b.Name]})
		}
	}
}

func (g *runDAG) requireBase(in object, name, content string) {
	if g.base[name] == nil {
		in.d.invalid(in.at(name), "is required, or %s beside the inputs", content)
	}
}

// textHash is the text hash of a member, or of a default when it is not given.
func (g *runDAG) textHash(in object, name string, otherwise []byte) []byte {
	text, given := in.wtf(name)
	if !given {
		text = otherwise
	}
	return g.r.hex(sha256.Sum256(text))
}

// retrievalHash covers the sources and, with a plan, the plan.
func (g *runDAG) retrievalHash(in object, list pyjson.Value) []byte {
	i := 0
	for e := range list.Elements() {
		if e.Kind() != pyjson.Object {
			in.d.invalid(in.element("sources", i), "must be an object")
			return nil
		}
		i++
	}
	return g.r.hex(rules.RetrievalHash(list, in.hash("retrieval_plan_hash")))
}

// buildReject makes the stages of a run that preflight turned away (spec: Rejected runs).
func (g *runDAG) buildReject(o, in object, answer []byte, hasAnswer bool) {
	answer, _ = in.answer(o, answer, hasAnswer)
	in.requiredWTF("rejection_reason")
	in.array("violations")
	mode, given := in.wtf("audit_mode")
	if !given {
		mode = []byte(rules.RejectAuditMode)
	}
	method, given := in.wtf("verifier_method")
	if !given {
		method = []byte(rules.RejectVerifierMethod)
	}
	g.AuditMode, g.VerifierMethod, g.LookupPath = eventText(mode), eventText(method), []byte(rules.Preflight)
	g.requireBase(in, "question_hash", "question")
	if g.base["preflight_hash"] == nil {
		in.d.invalid(in.at("preflight_hash"), "is required, or preflight_payload in its place")
	}
	if in.d.failed() {
		return
	}
	g.baseStage("question")
	g.baseStage(rules.Preflight)
	g.stage("final_label", g.r.hex(rules.RejectLabelHash(in.v, mode, method, answer)))
}

// adopt takes the claimed nodes where nothing can be recomputed, and recomputes
// those that carry the hash of content the record brings.
func (g *runDAG) adopt(claimed []node, answer []byte, hasAnswer bool) {
	seen := make(map[string]bool, len(claimed))
	for _, n := range claimed {
		n.adopted = true
		if hash := g.contentStage(n.stage, answer, hasAnswer); hash != nil && !seen[n.stage] {
			n.hash, n.adopted = hash, false
		}
		seen[n.stage] = true
		g.nodes = append(g.nodes, n)
	}
}

// contentStage is the hash of a stage that follows from content alone.
func (g *runDAG) contentStage(stage string, answer []byte, hasAnswer bool) []byte {
	if stage == "answer" && hasAnswer {
		return g.r.hex(sha256.Sum256(answer))
	}
	for _, b := range rules.BaseHashes {
		if b.Stage == stage && stage != "" && g.fromContent[b.Name] {
			return g.base[b.Name]
		}
	}
	return nil
}
