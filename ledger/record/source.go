package record

import (
	"colophon/ledger/record/fields"
	"colophon/ledger/record/rules"
	"colophon/ledger/record/strict"
)

// ParseSourceRegistration decodes the body `{"chunk_hashes"?, "title"?, "reason"?}` of a
// registration of a source. sourceID must be valid UTF-8 of at most fields.MaxSourceIDBytes bytes.
// If chunk_hashes is missing, the chunks of the source are unknown; an empty list means that the
// source has none. If the body is not valid, the error is a *strict.Error.
func ParseSourceRegistration(sourceID string, body []byte) (*Action, error) {
	f := &fields.Source{ID: []byte(sourceID)}
	return parseAction(KindSourceRegistered, f, body, func(o strict.Object) {
		f.ChunkHashes, f.HasChunkList = readChunkHashes(o, "chunk_hashes")
		f.Title, f.Reason = o.Text("title", fields.MaxTitleBytes), o.Text("reason", maxReason)
	}, "chunk_hashes", "title", "reason")
}

// ParseSourceRevocation decodes the body `{"reason"?}` of a revocation of a source. The body may
// also be empty. The requirements on sourceID and the error are the same as for
// ParseSourceRegistration.
func ParseSourceRevocation(sourceID string, body []byte) (*Action, error) {
	if len(body) == 0 {
		body = []byte("{}")
	}
	f := &fields.Source{ID: []byte(sourceID)}
	return parseAction(KindSourceRevoked, f, body, func(o strict.Object) { f.Reason = o.Text("reason", maxReason) }, "reason")
}

// readChunkHashes decodes a list of distinct chunk hashes (spec: Citation hashes). given is true
// even if the list is empty. The result does not alias the request body.
func readChunkHashes(o strict.Object, name string) (hashes [][]byte, given bool) {
	list := o.Array(name)
	if !list.IsGiven() {
		return nil, false
	}
	if !fitsEntry(o, name, list, len(rules.ChunkHashPrefix)+64+len(`"",`), "register the source in parts, each with its own id, or omit this member") {
		return nil, false
	}
	places := make(map[string]int)
	i := 0
	for e := range list.Elements() {
		if o.Decoder.IsFull() {
			return nil, false
		}
		text := string(e.Text())
		first, repeated := places[text]
		switch {
		case !rules.IsChunkHash(e.Text()):
			o.Decoder.ReportInvalid(o.ElementPointer(name, i), "must be %sexactly 64 lower-case hexadecimal digits", strict.PrefixPhrase(rules.ChunkHashPrefix))
		case repeated:
			o.Decoder.ReportInvalid(o.ElementPointer(name, i), "repeats element %d; list each chunk once", first)
		default:
			places[text] = i
			hashes = append(hashes, []byte(text))
		}
		i++
	}
	return hashes, true
}
