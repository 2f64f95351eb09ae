package indextest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/record"
)

// This file generates random events of every kind. Values come from small sets, so that they
// repeat.

// few returns one of the given texts at random.
func few(t *rapid.T, name string, texts ...string) string {
	return rapid.SampledFrom(texts).Draw(t, name)
}

// optional returns, at random, either the given members of a JSON object followed by a comma, or an
// empty string. If members is empty, it returns an empty string.
func optional(t *rapid.T, name, members string) string {
	if members == "" || rapid.IntRange(0, 2).Draw(t, "has "+name) == 0 {
		return ""
	}
	return members + ","
}

// drawCommon returns random members that records of any kind can have.
func drawCommon(t *rapid.T) string {
	return optional(t, "run_id", fmt.Sprintf(`"run_id":%q`, few(t, "run", "r1", "r2"))) +
		optional(t, "labels", fmt.Sprintf(`"labels":{"step":%q,"where":"here"}`, few(t, "step", "a", "b"))) +
		optional(t, "timestamp", fmt.Sprintf(`"timestamp":%q`, few(t, "time",
			"1969-12-31T23:59:58.9Z", "1970-01-01T00:00:00Z", "2024-05-06T07:08:09Z", "2024-05-06T09:08:09+02:00",
			"2024-05-06T07:08:09.000000001Z", "2024-05-06T07:08:10Z"))) +
		optional(t, "producer", fmt.Sprintf(`"producer":{"id":%q,"seq":%d}`, few(t, "producer", "p1", "p2"), rapid.IntRange(0, 9).Draw(t, "producer seq")))
}

func drawAnyIPC(t *rapid.T) string {
	return "{" + drawCommon(t) +
		optional(t, "system_prompt", fmt.Sprintf(`"system_prompt":%q`, few(t, "prompt", "be kind", "be brief"))) +
		optional(t, "output", fmt.Sprintf(`"output":%q`, few(t, "output", "yes", "no", "maybe"))) +
		few(t, "claim", "", "", `"input_hash":"`+zeros+`",`) +
		optional(t, "environment", fmt.Sprintf(`"environment":{"ollama_build_hash":"o","model_digest":%q,"host_platform":"h"}`, few(t, "digest", "d1", "d2"))) +
		optional(t, "seed", fmt.Sprintf(`"seed":%d`, rapid.IntRange(0, 1).Draw(t, "seed"))) +
		optional(t, "temperature", `"temperature":`+few(t, "temperature", "0", "0.7")) +
		optional(t, "max_tokens", `"max_tokens":`+few(t, "max_tokens", "8", "9")) +
		fmt.Sprintf(`"payload":{"q":%q%s},"model":%q}`, few(t, "input", "why?", "how?"), few(t, "payload's seed", "", `,"seed":1`), few(t, "model", "m1", "m2"))
}

// drawDigest returns one of three hashes at random.
func drawDigest(t *rapid.T, name string) string {
	return strings.Repeat(few(t, name, "0", "a", "f"), 64)
}

func drawAnyDAG(t *rapid.T) string {
	var nodes []string
	for _, stage := range []string{"question", "retrieval", "context", "prompt", "answer", "verify", "final_label", "mine"} {
		if rapid.IntRange(0, 3).Draw(t, "has stage") > 0 || len(nodes) == 0 {
			nodes = append(nodes, fmt.Sprintf(`{"stage":%q,"hash":%q}`, stage, drawDigest(t, "stage")))
		}
	}
	dimensions := fmt.Sprintf(`"cache_dimensions":{"source_root":%q,"question_hash":%q,"model_profile_hash":%q,"conversation_hash":%q,
		"governance_policy_hash":%q,"schema_version":"1","canonicalization_version":"1","chunking_version":%q}`,
		zeros, drawDigest(t, "question dimension"), zeros, zeros, zeros, few(t, "chunking", "1", "2"))
	stages := fmt.Sprintf(`"dag":{"root":%q,"nodes":[%s]}`, drawDigest(t, "root"), strings.Join(nodes, ","))
	run := few(t, "run", stages, stages, drawRunInputs(t), `"reject_inputs":{"preflight_hash":"`+zeros+`","rejection_reason":"so"}`)
	question := fmt.Sprintf(`"question":%q,`, few(t, "question", "why?", "how?"))
	if run == stages { // a record that lists its stages does not need a question
		question = few(t, "has question", "", question, question)
	}
	return "{" + drawCommon(t) + question + optional(t, "cache_dimensions", dimensions) +
		optional(t, "evidence", fmt.Sprintf(`"evidence":[{"chunk_root":%q,"start":0,"end":9}]`, drawDigest(t, "chunk root"))) + run + "}"
}

// drawRunInputs returns random inputs that determine the outcome of a run-DAG. Some of the
// resulting verdicts break a rule.
func drawRunInputs(t *rapid.T) string {
	return fmt.Sprintf(`"inputs":{"context_root":%q,"conversation_hash":%q,"answer_text":%q,"audit_mode":%q,"verifier_method":%q,`+
		`"n_quotes":%d,"n_verified":%d,"sources":[{"document_root":%q,"source_role":"primary_answer_source","score":0.5,"chunk_idx":4}],"lookup_path":"retrieval"}`,
		zeros, zeros, few(t, "answer", "yes", "no", ""), few(t, "mode", "STRICT", "HYBRID"), few(t, "method", "exact_quote", "none"),
		rapid.IntRange(0, 2).Draw(t, "quotes"), rapid.IntRange(0, 2).Draw(t, "verified"), drawDigest(t, "document"))
}

func drawAnyCitations(t *rapid.T) string {
	var citations []string
	for range rapid.IntRange(0, 4).Draw(t, "citations") {
		citations = append(citations, fmt.Sprintf(`{"source_id":%q,"text":%q,%s%s"weight":%s}`, few(t, "source", "s1", "s2", "s3"),
			few(t, "text", "one", "two", "three", "four"), few(t, "claim", "", "", `"chunk_hash":"sha256:`+zeros+`",`), optional(t, "section", `"section":"intro"`), few(t, "weight", "1", "0.5")))
	}
	return "{" + drawCommon(t) + fmt.Sprintf(`"subject":%q,"citations":[%s]}`, few(t, "subject", "x", "y"), strings.Join(citations, ","))
}

func drawAnyPath(t *rapid.T) string {
	// A build never names itself as its base.
	build := few(t, "build", `"b1"`, `"b2"`, `"b2","base":"b1"`, `"b2","base":"b1"`, `"b3"`, `"b3","base":"b1"`, `"b3","base":"b1"`, `"b3","base":"none"`)
	return "{" + drawCommon(t) + optional(t, "build", `"build":`+build+few(t, "branch", "", "", `,"branch":"main"`, `,"branch":"pr"`)) +
		optional(t, "content", fmt.Sprintf(`"content":%q`, few(t, "content", "text", "[[a]] text", "other"))) +
		optional(t, "version", `"hash_version":"5","content_fingerprint":"1cb251ec"`) +
		// The last two routes have the same path_id.
		fmt.Sprintf(`"project":%q,"route":%s}`, few(t, "project", "p", "p", "q"), few(t, "route", `["a"]`, `["a","b"]`, `["Start","Day 18555"]`, `["Start","Day 42885"]`))
}

// drawAction returns the body of an event for a random action, whose target may be missing from the
// log. size is the length of the log before the event.
func drawAction(t *rapid.T, size uint64) string {
	var v *record.Action
	var err error
	id := few(t, "source", "s1", "s2")
	switch few(t, "verb", "state", "state", "state", "validation", "validation", "validation", "register", "register", "revoke", "note", "redaction", "rotation") {
	case "state":
		target := rapid.Uint64Range(size-min(size, 8), size+1).Draw(t, "target")
		v, err = record.ParseStateChange(target, fmt.Appendf(nil, `{"state":%q,"reason":"so"}`, drawState(t)))
	case "note":
		v, err = record.ParseNote(rapid.Uint64Range(0, size).Draw(t, "noted"), fmt.Appendf(nil, `{"topic":%q,"original_actor":"ana"}`, few(t, "topic", "review", "step")))
	case "redaction":
		return redacting(t, rapid.Uint64Range(0, size).Draw(t, "redacted"))
	case "rotation":
		return rawBody(string(record.KindKeyRotated), `{}`, `{"verifier_key":"key"}`)
	case "validation":
		path := record.LatestPathRecord{Project: few(t, "project", "p", "q"), PathID: few(t, "path_id", "0cc175b9", "3661ef9c", "d2f2e118"),
			ContentFingerprint: few(t, "fingerprint", "", "1cb251ec"), RecordSeq: rapid.Uint64Range(0, size).Draw(t, "path record")}
		if rapid.Bool().Draw(t, "has build") {
			build := few(t, "validated build", "b1", "b2", "b3")
			path.Build = &build
		}
		var request *record.ValidationRequest
		request, err = record.ParseValidationRequest([]byte(`{"validated":` + strconv.FormatBool(rapid.Bool().Draw(t, "validated")) + `}`))
		v = request.ActionFor(path)
	case "register":
		v, err = record.ParseSourceRegistration(id, []byte(few(t, "chunks", `{}`, `{"chunk_hashes":[]}`,
			`{"chunk_hashes":["sha256:7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"]}`)))
	case "revoke":
		v, err = record.ParseSourceRevocation(id, nil)
	}
	require.NoError(t, err)
	return string(v.AppendBodyPrefix(nil, poster))
}

func drawState(t *rapid.T) string {
	return few(t, "state", "live", "failed", "stale", "quarantined")
}

// drawStates returns the bodies of the events of one random request that changes the state of
// many records. size is the length of the log before these events.
func drawStates(t *rapid.T, size uint64) (bodies []string) {
	text := fmt.Sprintf(`{"state":%q,"reason":"so","seqs":[0],"original_actor":"ana","timestamp":"2024-05-06T07:08:09Z"}`, drawState(t))
	request, err := record.ParseStateChangeRequest([]byte(text))
	require.NoError(t, err)
	for target := size - min(size, rapid.Uint64Range(1, 12).Draw(t, "targets")); target < size; target++ {
		bodies = append(bodies, string(request.ActionFor(target).AppendBodyPrefix(nil, poster)))
	}
	return bodies
}

// drawBuilds returns the bodies of events that record random paths in one build and in two pull
// requests based on it. size is the length of the log before these events.
func drawBuilds(t *rapid.T, size uint64) (bodies []string) {
	main := fmt.Sprintf(`"build":"s%d","branch":"main"`, size)
	request := fmt.Sprintf(`"build":"s%d-%%d","branch":"pr","base":"s%d"`, size, size)
	for _, build := range []string{main, fmt.Sprintf(request, 1), fmt.Sprintf(request, 2)} {
		for range rapid.IntRange(1, 3).Draw(t, "paths") {
			bodies = append(bodies, posted(t, record.KindPathFingerprint, fmt.Sprintf(`{%s,"project":"p","route":[%q],"content":%q}`,
				build, few(t, "route", "a", "b", "c"), few(t, "content", "text", "other"))))
		}
	}
	return bodies
}

// drawEvent returns the body of a random event for a log that already has size events. The event
// may have a kind that only a later build knows.
func drawEvent(t *rapid.T, size uint64) string {
	switch few(t, "event", "ipc", "ipc", "ipc", "dag", "dag", "citations", "citations", "path", "path", "path", "verb", "verb", "verb", "other") {
	case "ipc":
		return posted(t, record.KindIPCRecord, drawAnyIPC(t))
	case "dag":
		return posted(t, record.KindRunDAG, drawAnyDAG(t))
	case "citations":
		return posted(t, record.KindCitationSet, drawAnyCitations(t))
	case "path":
		return posted(t, record.KindPathFingerprint, drawAnyPath(t))
	case "verb":
		return drawAction(t, size)
	}
	return drawBody(t)
}

// drawEvents appends random events to the journal. If the journal is empty, it first appends the
// event that creates the ledger.
func (j *journal) drawEvents(t *rapid.T, maxEvents int) {
	var bodies []string
	if j.head.Size == 0 {
		bodies = append(bodies, string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil)))
	}
	j.append(drawMore(t, bodies, j.head.Size, rapid.IntRange(1, maxEvents).Draw(t, "events"))...)
}

// drawMore appends at least the given number of random events to bodies. It may append more,
// because one request can create several events. size is the seq of the first event in bodies.
func drawMore(t *rapid.T, bodies []string, size uint64, events int) []string {
	for events += len(bodies); len(bodies) < events; {
		next := size + uint64(len(bodies))
		switch rapid.IntRange(0, 29).Draw(t, "several events") {
		case 0:
			bodies = append(bodies, drawStates(t, next)...)
		case 1:
			bodies = append(bodies, drawBuilds(t, next)...)
		default:
			bodies = append(bodies, drawEvent(t, next))
		}
	}
	return bodies
}

// randomBodies returns the event bodies of a random ledger. The same arguments always produce the
// same bodies.
func randomBodies(seed, events int) []string {
	return rapid.Custom(func(t *rapid.T) []string {
		return drawMore(t, []string{string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil))}, 0, events)
	}).Example(seed)
}
