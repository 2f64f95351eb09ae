package fields

import (
	"bytes"
	"fmt"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// Citation is one citation in a citation set. Section is nil if the section is null or missing.
type Citation struct {
	ChunkHash, SourceID, Section []byte // ChunkHash has the prefix "sha256:"; Section is a section of the answer
	Weight                       []byte // a number in canonical form
}

// CitationSet holds the fields of a citation_set event (spec: Citation hashes).
type CitationSet struct {
	Subject   []byte     // what the citations are about
	Citations []Citation // in the order of the record
}

// Check implements Fields.
func (f *CitationSet) Check() error {
	var c forms
	c.required("subject", f.Subject, MaxNameBytes)
	for i, citation := range f.Citations {
		name := func(member string) string { return fmt.Sprintf("citations/%d/%s", i, member) }
		if !rules.IsChunkHash(citation.ChunkHash) {
			c.fail(name("chunk_hash"), citation.ChunkHash, "is not a chunk hash")
		}
		c.required("source_id", citation.SourceID, MaxNameBytes)
		c.text("section", citation.Section, MaxNameBytes)
		if !isWeight(citation.Weight) {
			c.fail(name("weight"), citation.Weight, "is not a number from 0 to 1 in canonical form")
		}
	}
	return c.err
}

// isWeight reports whether raw is a number from 0 to 1 in canonical form.
func isWeight(raw []byte) bool {
	switch string(raw) {
	case "0", "1", "0.0", "1.0", "-0.0":
		return true
	}
	return bytes.HasPrefix(raw, []byte("0.")) && pyjson.IsCanonicalFloat(raw) ||
		bytes.Contains(raw, []byte("e-")) && raw[0] != '-' && pyjson.IsCanonicalFloat(raw)
}

// Append implements Fields.
func (f *CitationSet) Append(w *pyjson.Builder, c *CommonFields) {
	w.BeginSortedObject()
	w.BeginMember("citations")
	w.Buf = append(w.Buf, '[')
	for i, c := range f.Citations {
		w.WriteComma(i)
		w.BeginSortedObject()
		w.AddText("chunk_hash", c.ChunkHash)
		w.AddNullableText("section", c.Section)
		w.AddText("source_id", c.SourceID)
		w.AddRaw("weight", c.Weight)
		w.EndObject()
	}
	w.Buf = append(w.Buf, ']')
	c.appendContents(w)
	c.appendIdentity(w)
	w.AddValue("labels", c.Labels)
	c.Producer.append(w)
	w.AddText("run_id", c.RunID)
	w.AddText("subject", f.Subject)
	w.AddText("timestamp", c.Timestamp)
	w.EndObject()
}

// AppendHashes implements FieldsWithHashes.
func (f *CitationSet) AppendHashes(*pyjson.Builder) {}
