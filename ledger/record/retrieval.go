package record

import (
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/ledger/record/strict"
)

// DecodeRetrieval decodes {sources, required_chunk_hashes, top_k}, the arguments of a pinned
// retrieval. A source without an id is "unknown", and a chunk without text is empty. required
// is nil only if the request does not have that member. The results refer to body. The error
// is a *strict.Error.
func DecodeRetrieval(body []byte) (chunks []rules.Chunk, required [][]byte, topK int, err error) {
	var document pyjson.Document
	if err := document.ParseWithin(body, DefaultLimits().Values); err != nil {
		return nil, nil, 0, strict.SyntaxError(err)
	}
	d := new(strict.Decoder)
	r := new(Record)
	o := d.Object(document.Root(), "", "sources", "required_chunk_hashes", "top_k")
	i := 0
	for source := range o.Array("sources").Elements() {
		if d.Full() {
			break
		}
		s := d.Object(source, o.Element("sources", i), "id", "chunks")
		chunks = append(chunks, r.decodeChunks(s, MaxChunks-len(chunks))...)
		if len(chunks) > MaxChunks {
			s.Invalid("chunks", "makes more than %d chunks in all; ask about fewer sources at once", MaxChunks)
			break
		}
		i++
	}
	if o.V.Member("required_chunk_hashes").Kind() != pyjson.Absent {
		required = [][]byte{}
	}
	for hash := range o.Array("required_chunk_hashes").Elements() {
		if hash.Kind() != pyjson.String || !rules.IsChunkHash(hash.Text()) {
			d.Invalid(o.Element("required_chunk_hashes", len(required)), "must be %q followed by exactly 64 lower-case hexadecimal digits", rules.ChunkPrefix)
			break
		}
		required = append(required, hash.Text())
	}
	topK = r.readSmallCount(o, "top_k")
	return chunks, required, topK, d.Err()
}

// MaxChunks bounds the chunks of one retrieval. A chunk takes many times the bytes of its
// shortest form in the request.
const MaxChunks = 100_000

// decodeChunks reads the chunks of one source, but at most one more than there is room for.
func (r *Record) decodeChunks(s strict.Object, room int) (chunks []rules.Chunk) {
	id := s.Text("id", maxName)
	if len(id) == 0 {
		id = []byte(rules.Unknown)
	}
	for c := range s.Array("chunks").Elements() {
		if s.D.Full() {
			break
		}
		chunk := s.D.Object(c, s.Element("chunks", len(chunks)), "text")
		text, given := chunk.UTF8("text")
		if !given {
			text = []byte{}
		}
		chunks = append(chunks, rules.Chunk{Hash: r.chunkHash(text), Text: text, SourceID: id})
		if len(chunks) > room {
			break
		}
	}
	return chunks
}

// readSmallCount reads a required count that fits an int. It returns a bound for larger
// counts.
func (r *Record) readSmallCount(o strict.Object, name string) int {
	const most = 1 << 30
	n := 0
	for _, digit := range r.readCount(o, name) {
		n = min(most, n*10+int(digit-'0'))
	}
	return n
}
