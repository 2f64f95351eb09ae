package record

import (
	"bytes"
	"fmt"
	"iter"
	"strconv"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/ledger/record/strict"
)

// CitationField is one citation of a set. A nil Section is null.
type CitationField struct {
	ChunkHash, SourceID, Section []byte
	Weight                       []byte // canonical number
}

// SetFields are the fields of a citation_set event (spec: Citation hashes).
type SetFields struct {
	Subject   []byte
	Citations []CitationField
}

// citationsPrefix begins the name of each citation's check.
const citationsPrefix = "citations/"

// decodeCitations reads a citation set and checks each chunk hash (spec: Citation set).
func (r *Record) decodeCitations(d *strict.Decoder, v pyjson.Value, pointer string) {
	o := d.Object(v, pointer, "run_id", "subject", "citations", "timestamp", "labels", "producer")
	r.decodeCommon(o)
	s := &SetFields{Subject: o.RequiredText("subject", maxName)}
	r.fields = s
	list := o.Array("citations")
	if !o.Member("citations").Given() {
		o.Missing("citations")
	}
	if !fitsEntry(o, "citations", list, len(rules.ChunkPrefix)+64+len(`{"chunk_hash":"","section":null,"source_id":"","weight":0},`), "split it into several records") {
		return
	}
	for e := range list.Elements() {
		if d.Full() {
			return
		}
		i := len(s.Citations)
		c := d.Object(e, o.Element("citations", i), "chunk_hash", "source_id", "text", "weight", "section")
		s.Citations = append(s.Citations, r.decodeCitation(c, citationsPrefix+strconv.Itoa(i)))
	}
}

// CitedSources yields the source of each citation of a set, with its JSON pointer in the request. It
// yields nothing for other kinds.
func (r *Record) CitedSources() iter.Seq2[string, string] {
	return func(yield func(pointer, source string) bool) {
		s, is := r.fields.(*SetFields)
		if !is {
			return
		}
		for i := range s.Citations {
			if !yield(fmt.Sprintf("%s/%s%d/source_id", r.pointer, citationsPrefix, i), string(s.Citations[i].SourceID)) {
				return
			}
		}
	}
}

// decodeCitation reads one citation. The names of its check and its content begin with name.
func (r *Record) decodeCitation(o strict.Object, name string) CitationField {
	c := CitationField{SourceID: o.RequiredText("source_id", maxName), Section: o.Text("section", maxName)}
	weight, given := o.Double("weight")
	switch {
	case !o.Member("weight").Given():
		o.Missing("weight")
	case given && (weight < 0 || weight > 1):
		o.Invalid("weight", "must be between 0 and 1")
	case given:
		r.scratch = o.Member("weight").AppendCanonical(r.scratch[:0], pyjson.Compact)
		c.Weight = r.keep(r.scratch)
	}
	claimed := o.Digits("chunk_hash", rules.ChunkPrefix, 64)
	var computed []byte
	if text, given := o.UTF8("text"); given {
		r.addContent(name+"/text", text)
		computed = r.chunkHash(text)
	} else if !o.Member("chunk_hash").Given() && !o.Member("text").Given() {
		o.Invalid("chunk_hash", "is required if text is not given")
	}
	c.ChunkHash = r.check(name+"/chunk_hash", claimed, computed)
	return c
}

// chunkHash returns the hash of a chunk's words (spec: Citation hashes), with its prefix.
func (r *Record) chunkHash(text []byte) []byte {
	start := len(r.arena)
	r.arena, r.scratch = rules.AppendChunkHash(r.arena, r.scratch, text)
	return r.arena[start:len(r.arena):len(r.arena)]
}

// Check implements Fields.
func (f *SetFields) Check() error {
	var c forms
	c.required("subject", f.Subject, maxName)
	for i, citation := range f.Citations {
		name := func(member string) string { return fmt.Sprintf("%s%d/%s", citationsPrefix, i, member) }
		if !rules.IsChunkHash(citation.ChunkHash) {
			c.fail(name("chunk_hash"), citation.ChunkHash, "is not a chunk hash")
		}
		c.required("source_id", citation.SourceID, maxName)
		c.text("section", citation.Section, maxName)
		if !isWeight(citation.Weight) {
			c.fail(name("weight"), citation.Weight, "is not a number from 0 to 1 in canonical form")
		}
	}
	return c.err
}

// isWeight reports whether a text is a canonical number from 0 to 1.
func isWeight(raw []byte) bool {
	switch string(raw) {
	case "0", "1", "0.0", "1.0", "-0.0":
		return true
	}
	return bytes.HasPrefix(raw, []byte("0.")) && pyjson.IsCanonicalFloat(raw) ||
		bytes.Contains(raw, []byte("e-")) && raw[0] != '-' && pyjson.IsCanonicalFloat(raw)
}

func (f *SetFields) append(w *pyjson.Builder, c *CommonFields) {
	w.OpenOrdered()
	w.Name("citations")
	w.B = append(w.B, '[')
	for i, c := range f.Citations {
		w.Comma(i)
		w.OpenOrdered()
		w.Text("chunk_hash", c.ChunkHash)
		w.Nullable("section", c.Section)
		w.Text("source_id", c.SourceID)
		w.Raw("weight", c.Weight)
		w.Close()
	}
	w.B = append(w.B, ']')
	c.appendContents(w)
	c.appendIdentity(w)
	w.Value("labels", c.Labels)
	c.Producer.append(w)
	w.Text("run_id", c.RunID)
	w.Text("subject", f.Subject)
	w.Text("timestamp", c.Timestamp)
	w.Close()
}

func (f *SetFields) appendHashes(*pyjson.Builder) {}
