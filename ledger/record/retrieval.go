package record

import (
	"bytes"
	"slices"

	"colophon/ledger/record/pyjson"
)

// Chunk is one row of a pinned retrieval (1.5).
type Chunk struct {
	Hash     []byte // with its prefix
	Text     []byte // verbatim
	SourceID []byte
}

// unknown stands for a source without id and for a citation without section.
const unknown = "unknown"

// PinnedRetrieval is the pinned retrieval of part 1.5: the chunks whose hash is
// required, once each and in source order, then others by hash, topK at most.
func PinnedRetrieval(chunks []Chunk, required [][]byte, topK int) []Chunk {
	wanted := make(map[string]bool, len(required)) // true until it is taken
	for _, hash := range required {
		wanted[string(hash)] = true
	}
	var chosen, others []Chunk
	for _, c := range chunks {
		if wanted[string(c.Hash)] {
			wanted[string(c.Hash)] = false
			chosen = append(chosen, c)
		} else if _, taken := wanted[string(c.Hash)]; !taken {
			others = append(others, c)
		}
	}
	slices.SortStableFunc(others, func(a, b Chunk) int { return bytes.Compare(a.Hash, b.Hash) })
	chosen = append(chosen, others...)
	return chosen[:min(len(chosen), topK)]
}

// DecodeRetrieval reads {sources, required_chunk_hashes, top_k}, the arguments of
// a pinned retrieval. A source without id is "unknown", a chunk without text is
// empty. required is nil only if the request does not have that member. What it returns
// refers to body. The error is an *Error.
func DecodeRetrieval(body []byte) (chunks []Chunk, required [][]byte, topK int, err error) {
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
		if hash.Kind() != pyjson.String || !isDigits(hash.Text(), chunkPrefix, 64) {
			d.invalid(o.element("required_chunk_hashes", len(required)), "must be %q followed by exactly 64 lower-case hexadecimal digits", chunkPrefix)
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
func (r *Record) decodeChunks(s object, room int) (chunks []Chunk) {
	id := s.text("id", maxName)
	if len(id) == 0 {
		id = []byte(unknown)
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
		chunks = append(chunks, Chunk{Hash: r.chunkHash(text), Text: text, SourceID: id})
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

// Citation is one citation of a citations document (1.5).
type Citation struct {
	ChunkHash []byte
	SourceID  []byte
	Text      []byte // nil when the ledger does not have it
	Weight    []byte // JSON number
	Section   []byte // nil is null
}

// AppendCitationsDocument appends the citations document (1.5) as canonical JSON:
// the citations by section and in order, their number, and their sources.
func AppendCitationsDocument(dst []byte, citations []Citation) []byte {
	w := &builder{b: dst}
	w.open()
	w.name("by_section")
	w.open()
	for section, members := range bySection(citations) {
		w.name(section)
		w.citations(members)
	}
	w.close()
	w.name("all_citations")
	w.citations(citations)
	w.integer("total_count", len(citations))
	w.name("source_ids")
	w.b = append(w.b, '[')
	for i, id := range sourceIDs(citations) {
		w.comma(i)
		w.b = pyjson.AppendString(w.b, id)
	}
	w.b = append(w.b, ']')
	w.close()
	return w.b
}

// bySection groups citations; null and "" count as "unknown".
func bySection(citations []Citation) map[string][]Citation {
	groups := make(map[string][]Citation)
	for _, c := range citations {
		section := string(c.Section)
		if section == "" {
			section = unknown
		}
		groups[section] = append(groups[section], c)
	}
	return groups
}

// sourceIDs are the distinct sources, sorted.
func sourceIDs(citations []Citation) [][]byte {
	ids := make([][]byte, len(citations))
	for i, c := range citations {
		ids[i] = c.SourceID
	}
	slices.SortFunc(ids, bytes.Compare)
	return slices.CompactFunc(ids, bytes.Equal)
}

func (w *builder) citations(list []Citation) {
	w.b = append(w.b, '[')
	for i, c := range list {
		w.comma(i)
		w.open()
		w.text("chunk_hash", c.ChunkHash)
		w.text("source_id", c.SourceID)
		w.nullable("text", c.Text)
		w.raw("weight", c.Weight)
		w.nullable("section", c.Section)
		w.close()
	}
	w.b = append(w.b, ']')
}
