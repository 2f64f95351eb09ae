package record

import (
	"crypto/sha256"

	"colophon/ledger/record/pyjson"
)

// build makes the stages of a quote or pointer run from its inputs (1.4).
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
	g.sources = list.Len()
	g.quotes, g.verified = in.requiredCount(g.r, "n_quotes"), in.requiredCount(g.r, "n_verified")
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
	g.failureStage = failureStage(in.member("audit_mode").Text(), g.sources, g.quotes)

	g.baseStage("question")
	if g.base["preflight_hash"] != nil {
		g.baseStage(preflightStage)
	}
	g.stage("retrieval", retrieval)
	verify, label := g.verifyHash(in), g.labelHash(in)
	if pointer {
		g.baseStage("evidence_map")
		g.baseStage("prompt")
		g.stage("raw_answer", g.textHash(in, "raw_answer_text", answer))
		g.stage("parsed_claim_lattice", g.latticeHash(in))
		g.stage("verify", verify)
		g.stage("render", g.textHash(in, "rendered_text", answer))
	} else {
		g.baseStage("context")
		g.baseStage("prompt")
		g.stage("answer", g.r.hex(sha256.Sum256(answer)))
		g.stage("verify", verify)
	}
	g.stage("final_label", label)
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
	g.auditMode = eventText(in.requiredWTF("audit_mode"))
	g.verifierMethod = eventText(in.requiredWTF("verifier_method"))
	lookup, _ := in.wtf("lookup_path")
	mode, _ := in.wtf("answer_mode")
	g.lookupPath, g.answerMode = eventText(lookup), eventText(mode)
}

func (g *runDAG) stage(name string, hash []byte) {
	g.nodes = append(g.nodes, node{stage: name, hash: hash})
}

// baseStage adds a stage that carries a base hash as it is.
func (g *runDAG) baseStage(stage string) {
	for _, b := range baseHashes {
		if b.stage == stage {
			g.nodes = append(g.nodes, node{stage: stage, hash: g.base[b.name], adopted: !g.fromContent[b.name]})
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

func (g *runDAG) latticeHash(in object) []byte {
	lattice := in.member("parsed_lattice")
	if !lattice.Given() {
		return g.r.hex(sha256.Sum256([]byte("[]")))
	}
	return g.r.hex(g.r.jsonHash(lattice))
}

// retrievalHash covers the sources and, with a plan, the plan.
func (g *runDAG) retrievalHash(in object, list pyjson.Value) []byte {
	w := &builder{b: []byte("[")}
	i := 0
	for e := range list.Elements() {
		if e.Kind() != pyjson.Object {
			in.d.invalid(in.element("sources", i), "must be an object")
			return nil
		}
		w.comma(i)
		w.open()
		for _, name := range [...]string{"chunk_idx", "document_root", "score", "source_role"} {
			if v := e.Member(name); v.Given() {
				w.value(name, v)
			} else {
				w.nullable(name, nil)
			}
		}
		w.close()
		i++
	}
	summary := g.r.hex(sha256.Sum256(append(w.b, ']')))
	plan := in.hash("retrieval_plan_hash")
	if plan == nil {
		return summary
	}
	return g.objectHash(func(w *builder) {
		w.text("retrieval_plan_hash", plan)
		w.text("sources_summary_hash", summary)
	})
}

func (g *runDAG) verifyHash(in object) []byte {
	return g.objectHash(func(w *builder) {
		w.value("audit_mode", in.member("audit_mode"))
		w.value("verifier_method", in.member("verifier_method"))
		w.raw("n_quotes", g.quotes)
		w.raw("n_verified", g.verified)
		if statuses := in.member("claim_statuses"); statuses.Given() {
			w.value("claim_statuses", statuses)
		} else {
			w.raw("claim_statuses", []byte("[]"))
		}
		w.nullable("failure_stage", g.failureStage)
		w.value("violations", in.member("violations"))
	})
}

func (g *runDAG) labelHash(in object) []byte {
	return g.objectHash(func(w *builder) {
		w.value("audit_mode", in.member("audit_mode"))
		w.value("verifier_method", in.member("verifier_method"))
		if lookup := in.member("lookup_path"); lookup.Given() {
			w.value("lookup_path", lookup)
		} else {
			w.nullable("lookup_path", nil)
		}
		w.value("answer_mode", in.member("answer_mode"))
	})
}

// objectHash is the JSON hash of an object.
func (g *runDAG) objectHash(members func(*builder)) []byte {
	w := &builder{}
	w.open()
	members(w)
	w.close()
	return g.r.hex(sha256.Sum256(w.b))
}

// buildReject makes the stages of a run that preflight turned away (1.4).
func (g *runDAG) buildReject(o, in object, answer []byte, hasAnswer bool) {
	answer, _ = in.answer(o, answer, hasAnswer)
	in.requiredWTF("rejection_reason")
	in.array("violations")
	mode, given := in.wtf("audit_mode")
	if !given {
		mode = []byte("UNGROUNDED")
	}
	method, given := in.wtf("verifier_method")
	if !given {
		method = []byte("claim_lattice_pointer")
	}
	g.auditMode, g.verifierMethod, g.lookupPath = eventText(mode), eventText(method), []byte(preflightStage)
	g.requireBase(in, "question_hash", "question")
	if g.base["preflight_hash"] == nil {
		in.d.invalid(in.at("preflight_hash"), "is required, or preflight_payload in its place")
	}
	if in.d.failed() {
		return
	}
	g.baseStage("question")
	g.baseStage(preflightStage)
	g.stage("final_label", g.objectHash(func(w *builder) {
		w.text("audit_mode", mode)
		w.text("verifier_method", method)
		w.text("lookup_path", []byte(preflightStage))
		w.value("rejection_reason", in.member("rejection_reason"))
		w.text("answer_text_hash", g.r.hex(sha256.Sum256(answer)))
		w.value("violations", in.member("violations"))
	}))
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
	for _, b := range baseHashes {
		if b.stage == stage && stage != "" && g.fromContent[b.name] {
			return g.base[b.name]
		}
	}
	return nil
}
