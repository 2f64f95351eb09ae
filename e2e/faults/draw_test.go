package faults_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"colophon/ledger/record"
	"colophon/ledger/record/rules"
)

// attempt is a request that posts a record or makes a change. It is immutable after creation,
// except for the fields guarded by the history's mu.
type attempt struct {
	id     int // unique within a history; stored in each record's label "attempt"
	method string
	path   string      // relative to the ledger's URL
	kind   record.Kind // kind of the event that the request causes
	body   []byte
	key    string      // idempotency key that the client chose, or ""
	runID  string      // run_id of the record, or ""; serves as the idempotency key if key is ""
	digest record.Hash // canonical digest of a record
	// contents holds the record's pieces of content, keyed by digest. It is nil for a change.
	contents map[record.Hash][]byte
	// validation is the URL path, relative to the ledger, for validating the path that a path
	// fingerprint records. It is "" for other kinds of records.
	validation string
	// target is the seq of the event that the attempt changes. If a change covers several records,
	// targets holds their seqs instead.
	target  uint64
	targets []uint64

	// The fields below are guarded by the history's mu.
	tries    int // number of times that the attempt was sent
	refusals int // number of responses stating that nothing was written
}

// keyed reports whether the attempt can safely be sent again.
func (a *attempt) keyed() bool { return a.key != "" || a.runID != "" }

// events returns the maximum number of events that the attempt writes each time it is sent.
func (a *attempt) events() int { return max(1, len(a.targets)) }

// isRecord reports whether the attempt posts a record rather than making a change.
func (a *attempt) isRecord() bool { return a.contents != nil }

// Each constant is the number of distinct values from which random records choose. Records with the
// same text share its content, which is stored only once.
const (
	prompts  = 4
	projects = 2
	subjects = 3
	sources  = 5
	builds   = 3
)

var noDigest = strings.Repeat("0", 64)

var routes = map[record.Kind]string{record.KindIPCRecord: "/ipc-records", record.KindRunDAG: "/run-dags",
	record.KindCitationSet: "/citation-sets", record.KindPathFingerprint: "/path-fingerprints"}

// randomRecord returns an attempt that posts a random record of a random kind. Apart from the
// shared texts, its content is unique.
func randomRecord(r *rand.Rand, world string, id, length int) *attempt {
	kind := record.RecordKinds[r.IntN(len(record.RecordKinds))]
	text := randomText(r, fmt.Sprintf("%s, attempt %d.", world, id), length)
	validation := ""
	members := map[string]any{"labels": map[string]string{"attempt": strconv.Itoa(id), "step": strconv.Itoa(r.IntN(3))}}
	switch kind {
	case record.KindIPCRecord:
		payload := map[string]any{"question": r.IntN(20)}
		switch r.IntN(6) {
		case 0: // no seed
		case 1:
			members["seed"] = r.IntN(4)
		default:
			payload["seed"] = r.IntN(4)
		}
		members["payload"] = payload
		members["output"] = text
		members["model"] = fmt.Sprintf("model-%d", r.IntN(3))
		if r.IntN(8) > 0 {
			members["system_prompt"] = fmt.Sprintf("Be kind, in the manner of number %d.", r.IntN(prompts))
		}
		if r.IntN(8) > 0 {
			members["temperature"] = 0.25 * float64(r.IntN(4))
			members["max_tokens"] = 100
		}
	case record.KindRunDAG:
		nodes := []map[string]string{}
		for _, stage := range []string{"question", "retrieval", "context", "prompt", "answer", "verify", "final_label"} {
			sum := sha256.Sum256([]byte(stage + strconv.Itoa(r.IntN(3))))
			nodes = append(nodes, map[string]string{"stage": stage, "hash": hex.EncodeToString(sum[:])})
		}
		members["question"] = fmt.Sprintf("Why number %d?", r.IntN(5))
		if r.IntN(2) == 0 {
			members["dag"] = map[string]any{"root": noDigest, "nodes": nodes}
			members["answer_text"] = text
			break
		}
		members["inputs"] = map[string]any{"context_root": noDigest, "conversation_hash": noDigest, "answer_text": text,
			"audit_mode": []string{"STRICT", "HYBRID"}[r.IntN(2)], "verifier_method": "exact_quote", "n_quotes": r.IntN(3), "n_verified": r.IntN(3),
			"sources":     []map[string]any{{"document_root": nodes[r.IntN(len(nodes))]["hash"], "source_role": "primary_answer_source", "score": 0.5, "chunk_idx": 4}},
			"lookup_path": "retrieval"}
		members["evidence"] = []map[string]any{{"chunk_root": nodes[0]["hash"], "start": 0, "end": 9}}
	case record.KindCitationSet:
		members["subject"] = fmt.Sprintf("subject-%d", r.IntN(subjects))
		members["citations"] = []map[string]any{
			{"source_id": fmt.Sprintf("source-%d", r.IntN(sources)), "text": text, "weight": 0.5},
			{"source_id": "source-0", "text": fmt.Sprintf("A chunk that many cite, number %d.", r.IntN(6)), "weight": 1},
		}
	case record.KindPathFingerprint:
		members["project"] = fmt.Sprintf("project-%d", r.IntN(projects))
		build := r.IntN(builds)
		members["build"] = fmt.Sprintf("build-%d", build)
		if r.IntN(2) == 0 {
			members["branch"] = fmt.Sprintf("branch-%d", r.IntN(2))
		}
		if r.IntN(3) == 0 { // set a base, which must be a different build
			members["base"] = fmt.Sprintf("build-%d", (build+1+r.IntN(builds-1))%builds)
		}
		passage := fmt.Sprintf("Passage %d", r.IntN(12))
		members["route"] = []string{"Start", passage}
		members["content"] = text
		pathID := rules.RouteDigest([][]byte{[]byte("Start"), []byte(passage)})[:rules.PathIDDigits]
		validation = fmt.Sprintf("/paths/%s/%s/validation", members["project"], pathID)
	}
	a := &attempt{id: id, method: "POST", path: routes[kind], kind: kind, validation: validation}
	switch n := r.IntN(10); {
	case n < 6:
		a.key = fmt.Sprintf("key of %s, %d", world, id)
	case n < 8:
		a.runID = fmt.Sprintf("run/%s/%d", world, id)
		members["run_id"] = a.runID
	}
	if r.IntN(3) == 0 {
		members["timestamp"] = time.Unix(1_700_000_000+int64(r.IntN(1000)), 0).UTC().Format(time.RFC3339)
	}
	a.body, _ = json.Marshal(members) // cannot fail, because all values can be encoded as JSON
	a.digest, a.contents = contentsOf(kind, a.body)
	return a
}

// randomText returns a text that starts with the given words and continues with random digits,
// which compress badly.
func randomText(r *rand.Rand, begin string, length int) string {
	noise := make([]byte, length/2)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	return begin + " " + hex.EncodeToString(noise)
}

// contentsOf returns the digest of a record and its pieces of content, keyed by digest.
func contentsOf(kind record.Kind, body []byte) (record.Hash, map[record.Hash][]byte) {
	parsed, err := record.Parse(kind, body)
	if err != nil {
		panic(fmt.Sprintf("a drawn record is refused: %v\n%s", err, body))
	}
	defer parsed.Release()
	contents := make(map[record.Hash][]byte)
	for _, c := range parsed.Contents {
		contents[c.Digest] = []byte(string(c.Bytes))
	}
	return parsed.Digest, contents
}

// randomChange returns a random change to an acknowledged event or to a source, or nil if the change
// that it chose does not apply.
func randomChange(r *rand.Rand, world string, id int, acks []*ack) *attempt {
	a := &attempt{id: id, key: fmt.Sprintf("key of %s, %d", world, id)}
	if len(acks) == 0 || r.IntN(5) == 0 {
		source := fmt.Sprintf("/sources/source-%d", r.IntN(sources))
		a.method, a.path, a.kind, a.body = "PUT", source, record.KindSourceRegistered, []byte("{}")
		return a
	}
	if r.IntN(4) == 0 {
		return drawStates(r, id, acks)
	}
	on := acks[r.IntN(len(acks))]
	a.target = on.seq
	at := fmt.Sprintf("/records/%d", on.seq)
	switch {
	case !on.attempt.isRecord():
		return nil
	case r.IntN(3) == 0:
		a.method, a.path, a.kind = "POST", at+"/notes", record.KindNote
		a.body = fmt.Appendf(nil, `{"topic":"topic-%d","text":"a test of faults","original_actor":"ana"}`, r.IntN(3))
	case r.IntN(2) == 0:
		a.method, a.path, a.kind = "DELETE", at+"/content", record.KindContentRedacted
		a.body = []byte(`{"reason":"a test of faults"}`)
	case on.attempt.kind.HasState():
		state := record.States[r.IntN(len(record.States))]
		a.method, a.path, a.kind = "POST", at+"/state", record.KindRecordStateChanged
		a.body = fmt.Appendf(nil, `{"state":%q,"reason":"a test of faults"}`, state)
	case on.attempt.validation != "":
		a.target = 0
		a.method, a.path, a.kind = "PUT", on.attempt.validation, record.KindPathValidated
		a.body = fmt.Appendf(nil, `{"validated":%t}`, r.IntN(3) > 0)
	default:
		return nil
	}
	return a
}

// reasonOf returns the reason that identifies the events of an attempt without an idempotency key.
func reasonOf(id int) string { return fmt.Sprintf("attempt %d", id) }

// drawStates returns a random change to the states of several records, or nil if none of the chosen
// records has a state.
func drawStates(r *rand.Rand, id int, acks []*ack) *attempt {
	a := &attempt{id: id, method: "POST", path: "/state-changes", kind: record.KindRecordStateChanged}
	size := uint64(0)
	for range 1 + r.IntN(8) {
		on := acks[r.IntN(len(acks))]
		if on.attempt.isRecord() && on.attempt.kind.HasState() && !slices.Contains(a.targets, on.seq) {
			a.targets, size = append(a.targets, on.seq), max(size, on.seq+1)
		}
	}
	if len(a.targets) == 0 {
		return nil
	}
	a.body, _ = json.Marshal(map[string]any{"state": record.States[r.IntN(len(record.States))], "reason": reasonOf(id), "seqs": a.targets,
		"dry_run": false, "as_of": size, "timestamp": "2025-11-30T12:00:00Z"}) // cannot fail, because all values can be encoded as JSON
	return a
}
