package indextest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/record"
)

// Random events of every kind. There are few values, so that they repeat.

// few draws one of some texts.
func few(t *rapid.T, name string, texts ...string) string {
	return rapid.SampledFrom(texts).Draw(t, name)
}

// optional draws members of a JSON object followed by a comma, or nothing.
func optional(t *rapid.T, name, members string) string {
	if members == "" || rapid.IntRange(0, 2).Draw(t, "has "+name) == 0 {
		return ""
	}
	return members + ","
}

// drawCommon draws members that records of all kinds can have.
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

// drawDigest draws one of three hashes.
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
	return "{" + drawCommon(t) + optional(t, "question", fmt.Sprintf(`"question":%q`, few(t, "question", "why?", "how?"))) +
		optional(t, "cache_dimensions", dimensions) + fmt.Sprintf(`"dag":{"root":%q,"nodes":[%s]}}`, drawDigest(t, "root"), strings.Join(nodes, ","))
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
	// A build is not its own base.
	build := few(t, "build", `"b1"`, `"b2"`, `"b2","base":"b1"`, `"b3"`, `"b3","base":"b1"`, `"b3","base":"none"`)
	return "{" + drawCommon(t) + optional(t, "build", `"build":`+build+few(t, "branch", "", "", `,"branch":"main"`, `,"branch":"pr"`)) +
		optional(t, "content", fmt.Sprintf(`"content":%q`, few(t, "content", "text", "[[a]] text", "other"))) +
		// The last two routes have one path_id.
		fmt.Sprintf(`"project":%q,"route":%s}`, few(t, "project", "p", "q"), few(t, "route", `["a"]`, `["a","b"]`, `["Start","Day 18555"]`, `["Start","Day 42885"]`))
}

// drawVerb draws an event that changes the state of something that may not exist. size is the
// length of the log before it.
func drawVerb(t *rapid.T, size uint64) string {
	var v *record.Verb
	var err error
	id := few(t, "source", "s1", "s2")
	switch few(t, "verb", "state", "state", "state", "validation", "register", "revoke") {
	case "state":
		target := rapid.Uint64Range(size-min(size, 8), size+1).Draw(t, "target")
		v, err = record.ParseStateChange(target, fmt.Appendf(nil, `{"state":%q,"reason":"so"}`, few(t, "state", "live", "failed", "stale", "quarantined")))
	case "validation":
		path := record.CurrentPath{Project: few(t, "project", "p", "q"), PathID: few(t, "path_id", "0cc175b9", "d2f2e118"),
			ContentFingerprint: few(t, "fingerprint", "", "1cb251ec"), RecordSeq: rapid.Uint64Range(0, size).Draw(t, "path record")}
		if rapid.Bool().Draw(t, "has build") {
			build := few(t, "validated build", "b1", "b2", "b3")
			path.Build = &build
		}
		var request *record.ValidationRequest
		request, err = record.ParseValidation([]byte(`{"validated":` + strconv.FormatBool(rapid.Bool().Draw(t, "validated")) + `}`))
		v = request.Of(path)
	case "register":
		v, err = record.ParseRegistration(id, []byte(few(t, "chunks", `{}`, `{"chunk_hashes":[]}`,
			`{"chunk_hashes":["sha256:7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"]}`)))
	case "revoke":
		v, err = record.ParseRevocation(id, nil)
	}
	require.NoError(t, err)
	return string(v.AppendBody(nil, poster))
}

// drawEvent draws any event that can follow size others, including one that a later version
// wrote.
func drawEvent(t *rapid.T, size uint64) string {
	switch few(t, "event", "ipc", "ipc", "ipc", "dag", "dag", "citations", "citations", "path", "path", "verb", "verb", "verb", "other") {
	case "ipc":
		return posted(t, record.IPCRecord, drawAnyIPC(t))
	case "dag":
		return posted(t, record.RunDAG, drawAnyDAG(t))
	case "citations":
		return posted(t, record.CitationSet, drawAnyCitations(t))
	case "path":
		return posted(t, record.PathFingerprint, drawAnyPath(t))
	case "verb":
		return drawVerb(t, size)
	}
	return drawBody(t)
}

// drawEvents appends random events to a log, after the event with which every log begins.
func (j *journal) drawEvents(t *rapid.T, most int) {
	var bodies []string
	if j.head.Size == 0 {
		bodies = append(bodies, string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil)))
	}
	for range rapid.IntRange(1, most).Draw(t, "events") {
		bodies = append(bodies, drawEvent(t, j.head.Size+uint64(len(bodies))))
	}
	j.append(bodies...)
}
