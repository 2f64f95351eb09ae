package event

import "colophon/ledger/record"

// Citation is one citation of a set.
type Citation = record.CitationField

// CitationSet holds the fields of a citation_set event (spec: Citation set).
type CitationSet = record.SetFields

// CitationSet reads a citation_set event.
func (e *Event) CitationSet() CitationSet {
	r := CitationSet{Subject: text(e.Detail.Member("subject"))}
	for c := range e.Detail.Member("citations").Elements() {
		r.Citations = append(r.Citations, Citation{
			ChunkHash: text(c.Member("chunk_hash")),
			SourceID:  text(c.Member("source_id")),
			Section:   text(c.Member("section")),
			Weight:    raw(c.Member("weight")),
		})
	}
	return r
}
