package fields

import (
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// Source holds the fields of a source_registered or source_revoked event.
type Source struct {
	ID, Title, Reason []byte // Title and Reason are nil if the event does not have them
	// HasChunkList is true if the registration lists the source's chunks, even if that list is empty.
	HasChunkList bool
	ChunkHashes  [][]byte // hashes of the listed chunks, in the order of the request
}

// Check implements Fields.
func (f *Source) Check() error {
	var c forms
	c.filled("source_id", f.ID, MaxSourceIDBytes)
	c.text("title", f.Title, MaxTitleBytes)
	c.text("reason", f.Reason, MaxReasonBytes)
	listed := make(map[string]bool, len(f.ChunkHashes))
	for _, chunk := range f.ChunkHashes {
		if !rules.IsChunkHash(chunk) || listed[string(chunk)] {
			c.fail("chunk hash", chunk, "is malformed or is listed twice")
		}
		listed[string(chunk)] = true
	}
	return c.err
}

func (f *Source) appendRequest(w *pyjson.Builder) {
	if f.HasChunkList {
		w.AddTexts("chunk_hashes", f.ChunkHashes)
	}
	w.AddText("reason", f.Reason)
	w.AddText("source_id", f.ID)
	w.AddText("title", f.Title)
}

// Append implements Fields.
func (f *Source) Append(w *pyjson.Builder, c *CommonFields) {
	w.BeginObject()
	c.appendIdentity(w)
	f.appendRequest(w)
	w.EndObject()
}
