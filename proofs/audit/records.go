package audit

import (
	"bytes"
	"crypto/md5" // #nosec G501 -- path ids are MD5 by definition (1.6)
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"

	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// common is what the records of all kinds have.
type common struct{ content, digest, key, labels, producer, runID pyjson.Value }

func commonOf(r pyjson.Value) common {
	return common{
		content: r.Member("content"), digest: r.Member("digest"), key: r.Member("idempotency_key"),
		labels: r.Member("labels"), producer: r.Member("producer"), runID: r.Member("run_id"),
	}
}

// checkCommon checks that, notes whether the record names content, and notes its key.
func (w *walk) checkCommon(e *event, c common) error {
	for name, named := range c.content.Members() {
		var m [len(contentMembers)]pyjson.Value
		if err := e.members("a piece of content", named, contentMembers[:], m[:]); err != nil {
			return err
		}
		if _, ok := count(m[1]); !ok || !isDigest(m[0].Text()) {
			return e.damaged("its content %.100q has no digest and size", name.Text())
		}
		e.facts |= hasContent
	}
	for name, value := range c.labels.Members() {
		if value.Kind() != pyjson.String || len(name.Text()) == 0 {
			return e.damaged("its label %.100q is %.100s", name.Text(), value.Raw())
		}
	}
	if c.producer.Kind() != pyjson.Absent {
		var m [len(producerMembers)]pyjson.Value
		if err := e.members("its producer", c.producer, producerMembers[:], m[:]); err != nil {
			return err
		}
		if n, ok := count(m[1]); !ok || n>>63 != 0 {
			return e.damaged("its number of its producer is %.100s", m[1].Raw())
		}
	}
	if c.runID.Kind() != pyjson.Absent && c.key.Kind() == pyjson.Absent {
		return e.damaged("it has a run_id, but no idempotency key")
	}
	return w.use(e, c.key, c.digest, e.kind)
}

var (
	contentMembers  = [...]member{{"sha256", text, always}, {"size", integer, always}}
	producerMembers = [...]member{{"id", text, always}, {"seq", integer, always}}
)

// setMembers are the members of a citation set, citationMembers those of a citation.
var (
	setMembers = [...]member{{"citations", array, always}, {"content", object, sometimes}, {"digest", text, always},
		{"idempotency_key", text, sometimes}, {"labels", object, sometimes}, {"producer", object, sometimes}, {"run_id", text, sometimes},
		{"subject", text, always}, {"timestamp", text, sometimes}}
	citationMembers = [...]member{{"chunk_hash", text, always}, {"section", nullable, always}, {"source_id", text, always}, {"weight", number, always}}
)

// checkCitations checks a citation set (1.5).
func (w *walk) checkCitations(e *event) error {
	if err := e.members("its record", e.record, setMembers[:], nil); err != nil {
		return err
	}
	known := commonOf(e.record)
	if err := w.checkCommon(e, known); err != nil {
		return err
	}
	c, i := claims{e: e}, 0
	for citation := range e.record.Member("citations").Elements() {
		if err := e.members("a citation", citation, citationMembers[:], nil); err != nil {
			return err
		}
		name := "citations/" + strconv.Itoa(i)
		i++
		chunk := citation.Member("chunk_hash").Text()
		if digits, ok := bytes.CutPrefix(chunk, []byte("sha256:")); !ok || !isDigest(digits) {
			return e.damaged("its %s has the chunk hash %.100q", name, chunk)
		}
		said := citation.Member("weight")
		if weight, ok := said.Float(); !ok || weight < 0 || weight > 1 {
			return e.damaged("its %s has the weight %.100s", name, said.Raw())
		}
		if err := c.check(field{name: name + "/chunk_hash", effective: chunk, from: has(known.content, name+"/text")}); err != nil {
			return err
		}
	}
	return c.done()
}

// pathMembers are the members of a path fingerprint.
var (
	pathMembers = [...]member{{"build", text, sometimes}, {"content", object, sometimes}, {"digest", text, always}, {"hash_version", text, always},
		{"hashes", object, always}, {"idempotency_key", text, sometimes}, {"labels", object, sometimes}, {"producer", object, sometimes},
		{"project", text, always}, {"route", array, always}, {"run_id", text, sometimes}, {"timestamp", text, sometimes}}
	pathHashes = [...]member{{"content_fingerprint", nullable, always}, {"path_id", text, always}, {"raw_content_fingerprint", nullable, always}}
)

// Digits of path ids and fingerprints (1.6).
const (
	shortID = 8
	longID  = 16
)

// checkPath checks a path fingerprint (1.6).
func (w *walk) checkPath(e *event) error {
	if err := e.members("its record", e.record, pathMembers[:], nil); err != nil {
		return err
	}
	hashes := e.record.Member("hashes")
	if err := e.members("its hashes", hashes, pathHashes[:], nil); err != nil {
		return err
	}
	known := commonOf(e.record)
	if err := w.checkCommon(e, known); err != nil {
		return err
	}
	var route [][]byte
	for passage := range e.record.Member("route").Elements() {
		if passage.Kind() != pyjson.String {
			return e.damaged("its route has the passage %.100s", passage.Raw())
		}
		route = append(route, passage.Text())
	}
	id, version := hashes.Member("path_id").Text(), e.record.Member("hash_version").Text()
	if string(version) != "adr-004" || !isDigits(id, shortID) && !isDigits(id, longID) {
		return e.damaged("its hash_version is %.100q, its path_id %.100q", version, id)
	}
	content, raw := hashes.Member("content_fingerprint"), hashes.Member("raw_content_fingerprint")
	for _, v := range [...]pyjson.Value{content, raw} {
		if v.Kind() == pyjson.String && !isDigits(v.Text(), shortID) {
			return e.damaged("its fingerprint is %.100q", v.Text())
		}
	}
	sum := md5.Sum(bytes.Join(route, []byte(" → "))) // #nosec G401 -- by definition (1.6)
	c := claims{e: e}
	for _, f := range [...]field{
		{name: "path_id", effective: id, from: computed, recomputed: hex.AppendEncode(nil, sum[:])[:len(id)]},
		{name: "content_fingerprint", effective: hash(content), from: has(known.content, "content")},
		{name: "raw_content_fingerprint", effective: hash(raw), from: has(known.content, "content")},
	} {
		if err := c.check(f); err != nil {
			return err
		}
	}
	return c.done()
}

// digestOf is the SHA-256 of the members of a record but some, as an object in
// canonical form.
func digestOf(r pyjson.Value, but ...string) proofs.Hash {
	covered := []byte{'{'}
	for name, value := range r.Members() {
		if !slices.Contains(but, string(name.Text())) {
			covered = append(append(append(append(covered, name.Raw()...), ':'), value.Raw()...), ',')
		}
	}
	if len(covered) > 1 {
		covered = covered[:len(covered)-1]
	}
	return sha256.Sum256(append(covered, '}'))
}
