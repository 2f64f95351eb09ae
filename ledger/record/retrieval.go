package record

import (
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// DecodeRetrieval reads {sources, required_chunk_hashes, top_k}, the arguments of
// a pinned retrieval. A source without id is "unknown", a chunk without text is
// empty. required is nil only if the request does not have that member. What it returns
// refers to body. The error is an *Error.
func DecodeRetrieval(body []byte) (chunks []rules.Chunk, required [][]byte, topK int, err error) {
	var document pyjson.Document
	if err := document.ParseWithin(body, DefaultLimits().Values); err != nil {
		return nil, nil, 0, syntaxError(err)
	}
	d := new(decoder)
	r := new(Record)
	o := d.object(document.Root(), "", "sources", "required_chunk_hashes", "top_k")
	i := 0
	for source := range o.array("sources").Elements() {
		if d.full() {
			break
		}
		s := d.object(source, o.element("sources", i), "id", "chunks")
		chunks = append(chunks, r.decodeChunks(s, MaxChunks-len(chunks))...)
		if len(chunks) > MaxChunks {
			s.d.invalid(s.at("chunks"), "makes more than %d chunks in all; ask about fewer sources at once", MaxChunks)
			break
		}
		i++
	}
	if o.v.Member("required_chunk_hashes").Kind() != pyjson.Absent {
		required = [][]byte{}
	}
	for hash := range o.array("required_chunk_hashes").Elements() {
		if hash.Kind() != pyjson.String || !rules.IsChunkHash(hash.Text()) {
			d.invalid(o.element("required_chunk_hashes", len(required)), "must be %q followed by exactly 64 lower-case hexadecimal digits", rules.ChunkPrefix)
			break
		}
		required = append(required, hash.Text())
	}
	topK = o.smallCount(r, "top_k")
	return chunks, required, topK, d.err()
}

// MaxChunks bounds the chunks of one retrieval: each costs many times what its
// shortest form takes in the request.
const MaxChunks = 100_000

// decodeChunks reads the chunks of one source, one more than there is room for at
// most.
func (r *Record) decodeChunks(s object, room int) (chunks []rules.Chunk) {
	id := s.text("id", maxName)
	if len(id) == 0 {
		id = []byte(rules.Unknown)
	}
	for c := range s.array("chunks").Elements() {
		if s.d.full() {
			break
		}
		chunk := s.d.object(c, s.element("chunks", len(chunks)), "text")
		text, given := chunk.strict("text")
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

// smallCount is a required count that fits an int; what is larger is cut.
func (o object) smallCount(r *Record, name string) int {
	const most = 1 << 30
	n := 0
	for _, digit := range o.requiredCount(r, name) {
		n = min(most, n*10+int(digit-'0'))
	}
	return n
}
