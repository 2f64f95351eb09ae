// Package retrieval decodes the request for a pinned retrieval (spec: Pinned retrieval).
package retrieval

import (
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/ledger/record/strict"
)

// Request contains the arguments of a pinned retrieval. It aliases the body of the request.
type Request struct {
	Chunks []rules.Chunk // chunks to select from, in the order of the request
	// RequiredHashes lists the hashes of the chunks to select first. It is nil only if the request
	// does not contain required_chunk_hashes.
	RequiredHashes [][]byte
	TopK           int // maximum number of chunks to select
}

// These limits apply to a request. They are needed because a decoded chunk can take up much more
// memory than it does in the request.
const (
	MaxChunks = 100_000   // maximum number of chunks
	maxValues = 1_000_000 // maximum number of JSON values and member names
	maxID     = 1024      // maximum length of a source's id in bytes
)

// DefaultTopK is the value of top_k for a request that does not contain it.
const DefaultTopK = 5

// Decode decodes a request with the members sources, required_chunk_hashes, top_k, query, and seed.
// A source without an ID gets the ID "unknown", and a chunk without text gets an empty text. Decode
// ignores query and seed, as well as unknown members of a source or chunk, because they do not
// affect the selection. If the body is not valid, the error is a *strict.Error.
func Decode(body []byte) (r Request, err error) {
	var document pyjson.Document
	if err := document.ParseLimited(body, maxValues); err != nil {
		return r, strict.NewSyntaxError(err)
	}
	d := new(strict.Decoder)
	o := d.Object(document.Root(), "", "sources", "required_chunk_hashes", "top_k", "query", "seed")
	i := 0
	for source := range o.Array("sources").Elements() {
		if d.IsFull() {
			break
		}
		s, ok := object(d, source, o.ElementPointer("sources", i))
		if !ok {
			break
		}
		r.Chunks = append(r.Chunks, decodeChunks(s, MaxChunks-len(r.Chunks))...)
		if len(r.Chunks) > MaxChunks {
			s.ReportInvalid("chunks", "exceeds the limit of %d chunks per request; send fewer sources at once", MaxChunks)
			break
		}
		i++
	}
	if o.Value.Member("required_chunk_hashes").Kind() != pyjson.Absent {
		r.RequiredHashes = [][]byte{}
	}
	for hash := range o.Array("required_chunk_hashes").Elements() {
		if hash.Kind() != pyjson.String || !rules.IsChunkHash(hash.Text()) {
			d.ReportInvalid(o.ElementPointer("required_chunk_hashes", len(r.RequiredHashes)), "must be %q followed by exactly 64 lower-case hexadecimal digits", rules.ChunkHashPrefix)
			break
		}
		r.RequiredHashes = append(r.RequiredHashes, hash.Text())
	}
	r.TopK = topK(o)
	return r, d.Err()
}

// object returns v as an object, in which any members are allowed. It returns false if v is not an
// object.
func object(d *strict.Decoder, v pyjson.Value, pointer string) (strict.Object, bool) {
	if v.Kind() != pyjson.Object {
		d.ReportInvalid(pointer, "must be an object")
	}
	return strict.Object{Decoder: d, Value: v, Pointer: pointer}, v.Kind() == pyjson.Object
}

// decodeChunks decodes the chunks of one source. It stops after room+1 chunks, which lets the
// caller detect that there are too many.
func decodeChunks(s strict.Object, room int) (chunks []rules.Chunk) {
	var scratch []byte
	id := s.Text("id", maxID)
	if len(id) == 0 {
		id = []byte(rules.UnknownPlaceholder)
	}
	for c := range s.Array("chunks").Elements() {
		if s.Decoder.IsFull() {
			break
		}
		chunk, ok := object(s.Decoder, c, s.ElementPointer("chunks", len(chunks)))
		if !ok {
			break
		}
		text, given := chunk.UTF8("text")
		if !given {
			text = []byte{}
		}
		var hash []byte
		hash, scratch = rules.AppendChunkHash(nil, scratch, text)
		chunks = append(chunks, rules.Chunk{Hash: hash, Text: text, SourceID: id})
		if len(chunks) > room {
			break
		}
	}
	return chunks
}

// topK decodes top_k. Numbers above 2^30 become 2^30.
func topK(o strict.Object) int {
	const most = 1 << 30
	v := o.Member("top_k")
	if !v.IsGiven() {
		return DefaultTopK
	}
	decimal, ok := v.AppendInteger(nil)
	switch {
	case !ok:
		o.ReportInvalid("top_k", "must be an integer without a fraction or an exponent")
		return 0
	case decimal[0] == '-':
		o.ReportInvalid("top_k", "must not be negative")
		return 0
	}
	n := 0
	for _, digit := range decimal {
		n = min(most, n*10+int(digit-'0'))
	}
	return n
}
