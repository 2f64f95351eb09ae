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

// ipcMembers are the members of an IPC record.
var ipcMembers = [...]member{
	{"content", object, sometimes}, {"digest", text, always}, {"environment", object, sometimes}, {"hashes", object, always},
	{"idempotency_key", text, sometimes}, {"labels", object, sometimes}, {"max_tokens", integer, always}, {"model", text, always},
	{"payload_schema", text, sometimes}, {"producer", object, sometimes}, {"run_id", text, sometimes}, {"seed", integer, sometimes},
	{"temperature", float, always}, {"timestamp", text, sometimes}, {"usage", object, sometimes},
}

var (
	ipcHashes = [...]member{{"input_hash", text, always}, {"ipc_id", nullable, always}, {"ipc_id_advanced", nullable, sometimes},
		{"output_hash", nullable, always}, {"system_prompt_hash", nullable, always}}
	environmentMembers = [...]member{{"host_platform", text, sometimes}, {"model_digest", text, sometimes}, {"ollama_build_hash", text, sometimes}}
)

// checkIPC checks an IPC record (1.3).
func (w *walk) checkIPC(e *event) error {
	var m [len(ipcMembers)]pyjson.Value
	if err := e.members("its record", e.record, ipcMembers[:], m[:]); err != nil {
		return err
	}
	content, hashes := m[0], m[3]
	var h [len(ipcHashes)]pyjson.Value
	var env [len(environmentMembers)]pyjson.Value
	err := e.members("its hashes", hashes, ipcHashes[:], h[:])
	if err == nil && m[2].Kind() != pyjson.Absent {
		err = e.members("its environment", m[2], environmentMembers[:], env[:])
	}
	if err == nil {
		err = e.hashForms(h[:]...)
	}
	if err == nil {
		err = w.checkCommon(e, common{m[0], m[1], m[4], m[5], m[9], m[10]})
	}
	if err != nil {
		return err
	}
	if tokens := m[6].Raw(); tokens[0] == '-' {
		return e.damaged("its max_tokens are %.100s", tokens)
	}
	c := claims{e: e}
	for _, f := range [...]field{
		{name: "input_hash", effective: hash(h[0]), from: has(content, "payload")},
		{name: "system_prompt_hash", effective: hash(h[4]), from: has(content, "system_prompt")},
		{name: "output_hash", effective: hash(h[3]), from: has(content, "output")},
	} {
		if err := c.check(f); err != nil {
			return err
		}
	}
	if err := c.check(w.ipcID(m, h, "ipc_id", h[1])); err != nil {
		return err
	}
	if err := c.check(w.ipcID(m, h, "ipc_id_advanced", h[2], env[2], env[1], env[0])); err != nil {
		return err
	}
	return c.done()
}

// ipcID is the field of an ipc_id, or of one that covers more, until the next is made. It is withheld where
// the chain is incomplete, and a claim where not all that it covers is known.
func (w *walk) ipcID(m [len(ipcMembers)]pyjson.Value, h [len(ipcHashes)]pyjson.Value, name string, effective pyjson.Value, more ...pyjson.Value) field {
	f := field{name: name, effective: hash(effective), from: claimed}
	if h[3].Kind() == pyjson.Null || h[4].Kind() == pyjson.Null {
		f.withheld = true
		return f
	}
	model, temperature, tokens, seed := m[7], m[12], m[6], m[11]
	if seed.Kind() == pyjson.Absent {
		return f
	}
	joined := append(w.joined[:0], h[0].Text()...)
	for _, part := range [...][]byte{h[4].Text(), model.Text(), temperature.Raw(), tokens.Raw(), seed.Raw()} {
		joined = append(append(joined, ':'), part...)
	}
	for _, v := range more {
		if v.Kind() == pyjson.Absent {
			return f
		}
		joined = append(append(joined, ':'), v.Text()...)
	}
	sum := sha256.Sum256(joined)
	begin := len(joined)
	w.joined = hex.AppendEncode(joined, sum[:])
	f.from, f.recomputed = computed, w.joined[begin:]
	return f
}

// setMembers are the members of a citation set, citationMembers those of a citation.
var (
	setMembers = [...]member{{"citations", array, always}, {"content", object, sometimes}, {"digest", text, always},
		{"idempotency_key", text, sometimes}, {"labels", object, sometimes}, {"producer", object, sometimes}, {"run_id", text, sometimes},
		{"subject", text, always}, {"timestamp", text, sometimes}}
	citationMembers = [...]member{{"chunk_hash", text, always}, {"section", nullable, always}, {"source_id", text, always}, {"weight", number, always}}
)

// checkCitations checks a citation set (1.5).
func (w *walk) checkCitations(e *event) error {
	var m [len(setMembers)]pyjson.Value
	if err := e.members("its record", e.record, setMembers[:], m[:]); err != nil {
		return err
	}
	if err := w.checkCommon(e, common{m[1], m[2], m[3], m[4], m[5], m[6]}); err != nil {
		return err
	}
	c, i := claims{e: e}, 0
	for citation := range m[0].Elements() {
		var m1 [len(citationMembers)]pyjson.Value
		if err := e.members("a citation", citation, citationMembers[:], m1[:]); err != nil {
			return err
		}
		name := "citations/" + strconv.Itoa(i)
		i++
		chunk := m1[0].Text()
		if digits, ok := bytes.CutPrefix(chunk, []byte("sha256:")); !ok || !isDigest(digits) {
			return e.damaged("its %s has the chunk hash %.100q", name, chunk)
		}
		if weight, ok := m1[3].Float(); !ok || weight < 0 || weight > 1 {
			return e.damaged("its %s has the weight %.100s", name, m1[3].Raw())
		}
		if err := c.check(field{name: name + "/chunk_hash", effective: chunk, from: has(m[1], name+"/text")}); err != nil {
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
	var m [len(pathMembers)]pyjson.Value
	if err := e.members("its record", e.record, pathMembers[:], m[:]); err != nil {
		return err
	}
	var h [len(pathHashes)]pyjson.Value
	if err := e.members("its hashes", m[4], pathHashes[:], h[:]); err != nil {
		return err
	}
	if err := w.checkCommon(e, common{m[1], m[2], m[5], m[6], m[7], m[10]}); err != nil {
		return err
	}
	var route [][]byte
	for passage := range m[9].Elements() {
		if passage.Kind() != pyjson.String {
			return e.damaged("its route has the passage %.100s", passage.Raw())
		}
		route = append(route, passage.Text())
	}
	id := h[1].Text()
	if string(m[3].Text()) != "adr-004" || !isDigits(id, shortID) && !isDigits(id, longID) {
		return e.damaged("its hash_version is %.100q, its path_id %.100q", m[3].Text(), id)
	}
	for _, v := range [...]pyjson.Value{h[0], h[2]} {
		if v.Kind() == pyjson.String && !isDigits(v.Text(), shortID) {
			return e.damaged("its fingerprint is %.100q", v.Text())
		}
	}
	sum := md5.Sum(bytes.Join(route, []byte(" → "))) // #nosec G401 -- by definition (1.6)
	c := claims{e: e}
	for _, f := range [...]field{
		{name: "path_id", effective: id, from: computed, recomputed: hex.AppendEncode(nil, sum[:])[:len(id)]},
		{name: "content_fingerprint", effective: hash(h[0]), from: has(m[1], "content")},
		{name: "raw_content_fingerprint", effective: hash(h[2]), from: has(m[1], "content")},
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
