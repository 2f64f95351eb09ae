package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/proofs"
)

// common is what the records of all kinds have.
type common struct{ content, digest, key, labels, producer, runID, timestamp pyjson.Value }

func commonOf(r pyjson.Value) common {
	return common{
		content: r.Member("content"), digest: r.Member("digest"), key: r.Member("idempotency_key"),
		labels: r.Member("labels"), producer: r.Member("producer"), runID: r.Member("run_id"), timestamp: r.Member("timestamp"),
	}
}

// checkCommon checks that, notes whether the record names content, and notes its key. Its
// content has the names in contents; nil allows any.
func (w *walk) checkCommon(e *event, c common, contents []member) error {
	if contents != nil && c.content.Kind() != pyjson.Absent {
		if err := e.members("its content", c.content, contents, nil); err != nil {
			return err
		}
	}
	for name, named := range c.content.Members() {
		var m [len(contentMembers)]pyjson.Value
		if err := e.members("a piece of content", named, contentMembers[:], m[:]); err != nil {
			return err
		}
		size, ok := count(m[1])
		if !ok || (size == 0) != bytes.Equal(m[0].Text(), emptyDigest) {
			return e.damaged("its content %.100q has the size %.100s, which is not that of its digest %s", name.Text(), m[1].Raw(), m[0].Text())
		}
		e.facts |= hasContent
	}
	if c.content.Kind() != pyjson.Absent && e.facts&hasContent == 0 {
		return e.damaged("its content names nothing")
	}
	if c.timestamp.Kind() != pyjson.Absent {
		if _, ok := record.ParseTime(c.timestamp.Text()); !ok || len(c.timestamp.Text()) > record.MaxTimestamp {
			return e.damaged("its timestamp %.100q is not RFC 3339", c.timestamp.Text())
		}
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
	if err := w.use(e, c.key, c.digest, e.kind); err != nil || c.runID.Kind() == pyjson.Absent {
		return err
	}
	w.countKey(e.kind, c.runID.Text())
	return nil
}

var (
	contentMembers  = [...]member{{"sha256", digestText, always}, {"size", natural, always}}
	producerMembers = [...]member{{"id", shortText | formFilled, always}, {"seq", natural, always}}
	emptyDigest     = hex.AppendEncode(nil, sha256.New().Sum(nil))
)

// setMembers are the members of a citation set, citationMembers those of a citation.
var (
	setMembers = [...]member{{"citations", array, always}, {"content", object, sometimes}, {"digest", digestText, always},
		{"idempotency_key", digestText, sometimes}, {"labels", object, sometimes}, {"producer", object, sometimes}, {"run_id", identifier, sometimes},
		{"subject", nameText, always}, {"timestamp", text, sometimes}}
	citationMembers = [...]member{{"chunk_hash", text, always}, {"section", nullable | formName, always}, {"source_id", nameText, always}, {"weight", number, always}}
)

// checkCitations checks a citation set (1.5).
func (w *walk) checkCitations(e *event) error {
	if err := e.members("its record", e.record, setMembers[:], nil); err != nil {
		return err
	}
	known := commonOf(e.record)
	if err := w.checkCommon(e, known, nil); err != nil {
		return err
	}
	c, i, texts := claims{e: e}, 0, 0
	for citation := range e.record.Member("citations").Elements() {
		if err := e.members("a citation", citation, citationMembers[:], nil); err != nil {
			return err
		}
		name := "citations/" + strconv.Itoa(i)
		i++
		chunk := citation.Member("chunk_hash").Text()
		if !rules.IsChunkHash(chunk) {
			return e.damaged("its %s has the chunk hash %.100q", name, chunk)
		}
		said := citation.Member("weight")
		if weight, ok := said.Float(); !ok || weight < 0 || weight > 1 {
			return e.damaged("its %s has the weight %.100s", name, said.Raw())
		}
		from := has(known.content, name+"/text")
		if from == computed {
			texts++
		}
		if err := c.check(field{name: name + "/chunk_hash", effective: chunk, from: from, form: rules.IsChunkHash}); err != nil {
			return err
		}
	}
	if n := known.content.Len(); n != texts {
		return e.damaged("it names %d pieces of content, %d of them texts of its citations", n, texts)
	}
	return c.done()
}

// pathMembers are the members of a path fingerprint.
var (
	pathMembers = [...]member{{"build", nameText, sometimes}, {"content", object, sometimes}, {"digest", digestText, always}, {"hash_version", text, always},
		{"hashes", object, always}, {"idempotency_key", digestText, sometimes}, {"labels", object, sometimes}, {"producer", object, sometimes},
		{"project", nameText, always}, {"route", array, always}, {"run_id", identifier, sometimes}, {"timestamp", text, sometimes}}
	pathContents = [...]member{{"content", object, always}}
	pathHashes   = [...]member{{"content_fingerprint", nullable, always}, {"path_id", text, always}, {"raw_content_fingerprint", nullable, always}}
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
	if err := w.checkCommon(e, known, pathContents[:]); err != nil {
		return err
	}
	for passage := range e.record.Member("route").Elements() {
		if passage.Kind() != pyjson.String || len(passage.Text()) > record.MaxName {
			return e.damaged("its route has the passage %.100s", passage.Raw())
		}
	}
	id, version := hashes.Member("path_id").Text(), e.record.Member("hash_version").Text()
	if string(version) != rules.FingerprintVersion || !rules.IsPathID(id) {
		return e.damaged("its hash_version is %.100q, its path_id %.100q", version, id)
	}
	content, raw := hashes.Member("content_fingerprint"), hashes.Member("raw_content_fingerprint")
	for _, v := range [...]pyjson.Value{content, raw} {
		if v.Kind() == pyjson.String && !rules.IsDigits(v.Text(), rules.FingerprintDigits) {
			return e.damaged("its fingerprint is %.100q", v.Text())
		}
	}
	if result := e.checks.Member("path_id").Member("result").Text(); string(result) == string(record.Computed) && len(id) != rules.PathIDDigits {
		return checkDamaged(e.seq, "path_id", "it has %d digits, though none were claimed", len(id))
	}
	c := claims{e: e}
	for _, f := range [...]field{
		{name: "path_id", effective: id, from: computed, recomputed: routeID(e.record)[:len(id)], form: digitsOf(len(id))},
		{name: "content_fingerprint", effective: hash(content), from: has(known.content, "content"), form: digitsOf(rules.FingerprintDigits)},
		{name: "raw_content_fingerprint", effective: hash(raw), from: has(known.content, "content"), form: digitsOf(rules.FingerprintDigits)},
	} {
		if err := c.check(f); err != nil {
			return err
		}
	}
	return c.done()
}

// routeID is the MD5 of a path's route, in hexadecimal digits: its path_id begins it (1.6).
func routeID(path pyjson.Value) []byte {
	var route [][]byte
	for passage := range path.Member("route").Elements() {
		route = append(route, passage.Text())
	}
	return rules.RouteID(route)
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
