package faults_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"colophon/ledger/record"
)

// attempt is a request for a record or a change of state. Only the members that mu guards
// change after it is drawn.
type attempt struct {
	id     int // unique in a world, and the label "attempt" of a record
	method string
	path   string      // within the ledger
	kind   record.Kind // of the event that it becomes
	body   []byte
	key    string      // idempotency key that the client chose; empty if none
	runID  string      // run_id of the record, its key if it has no other; empty if none
	digest record.Hash // canonical digest of a record
	// contents are the pieces of content of a record, by digest.
	contents map[record.Hash][]byte
	// target is the event that a change is about.
	target uint64

	// Guarded by the history's mu.
	tries    int // number of times that it was sent
	refusals int // number of answers that said that nothing was written
}

// keyed reports whether sending it again is safe.
func (a *attempt) keyed() bool { return a.key != "" || a.runID != "" }

// isRecord reports whether it is a record and not a change.
func (a *attempt) isRecord() bool { return a.contents != nil }

// Texts that many records share, so that their content is stored once.
const (
	prompts  = 4
	projects = 2
	subjects = 3
	sources  = 5
)

var routes = map[record.Kind]string{record.IPCRecord: "/ipc-records", record.RunDAG: "/run-dags",
	record.CitationSet: "/citation-sets", record.PathFingerprint: "/path-fingerprints"}

// drawRecord draws a record of any kind. No other record has its content, apart from the
// shared texts.
func drawRecord(r *rand.Rand, world string, id, length int) *attempt {
	kind := record.Kinds[r.IntN(len(record.Kinds))]
	text := drawText(r, fmt.Sprintf("%s, attempt %d.", world, id), length)
	members := map[string]any{"labels": map[string]string{"attempt": strconv.Itoa(id), "step": strconv.Itoa(r.IntN(3))}}
	switch kind {
	case record.IPCRecord:
		members["payload"] = map[string]any{"seed": r.IntN(4), "question": r.IntN(20)}
		members["system_prompt"] = fmt.Sprintf("Be kind, in the manner of number %d.", r.IntN(prompts))
		members["output"] = text
		members["model"] = fmt.Sprintf("model-%d", r.IntN(3))
		members["temperature"] = 0.25 * float64(r.IntN(4))
		members["max_tokens"] = 100
	case record.RunDAG:
		nodes := []map[string]string{}
		for _, stage := range []string{"question", "retrieval", "context", "prompt", "answer", "verify", "final_label"} {
			sum := sha256.Sum256([]byte(stage + strconv.Itoa(r.IntN(3))))
			nodes = append(nodes, map[string]string{"stage": stage, "hash": hex.EncodeToString(sum[:])})
		}
		members["dag"] = map[string]any{"root": strings.Repeat("0", 64), "nodes": nodes}
		members["question"] = fmt.Sprintf("Why number %d?", r.IntN(5))
		members["answer_text"] = text
	case record.CitationSet:
		members["subject"] = fmt.Sprintf("subject-%d", r.IntN(subjects))
		members["citations"] = []map[string]any{
			{"source_id": fmt.Sprintf("source-%d", r.IntN(sources)), "text": text, "weight": 0.5},
			{"source_id": "source-0", "text": fmt.Sprintf("A chunk that many cite, number %d.", r.IntN(6)), "weight": 1},
		}
	case record.PathFingerprint:
		members["project"] = fmt.Sprintf("project-%d", r.IntN(projects))
		members["build"] = fmt.Sprintf("build-%d", r.IntN(3))
		members["route"] = []string{"Start", fmt.Sprintf("Passage %d", r.IntN(12))}
		members["content"] = text
	}
	a := &attempt{id: id, method: "POST", path: routes[kind], kind: kind}
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
	a.body, _ = json.Marshal(members) // maps of strings and numbers
	a.digest, a.contents = contentsOf(kind, a.body)
	return a
}

// drawText draws a text with a given beginning that hardly compresses.
func drawText(r *rand.Rand, begin string, length int) string {
	noise := make([]byte, length/2)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	return begin + " " + hex.EncodeToString(noise)
}

// contentsOf returns the digest of a record and its pieces of content.
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

// drawVerb draws a change to the state of an event in the log, or to a source. It returns nil if
// there is nothing to change.
func drawVerb(r *rand.Rand, world string, id int, acks []*ack) *attempt {
	a := &attempt{id: id, key: fmt.Sprintf("key of %s, %d", world, id)}
	if len(acks) == 0 || r.IntN(5) == 0 {
		source := fmt.Sprintf("/sources/source-%d", r.IntN(sources))
		a.method, a.path, a.kind, a.body = "PUT", source, record.SourceRegistered, []byte("{}")
		return a
	}
	on := acks[r.IntN(len(acks))]
	a.target = on.seq
	at := fmt.Sprintf("/records/%d", on.seq)
	switch {
	case !on.attempt.isRecord():
		return nil
	case r.IntN(2) == 0:
		a.method, a.path, a.kind = "DELETE", at+"/content", record.ContentRedacted
		a.body = []byte(`{"reason":"a test of faults"}`)
	case on.attempt.kind.HasState():
		state := record.States[r.IntN(len(record.States))]
		a.method, a.path, a.kind = "POST", at+"/state", record.RecordStateChanged
		a.body = fmt.Appendf(nil, `{"state":%q,"reason":"a test of faults"}`, state)
	default:
		return nil
	}
	return a
}
