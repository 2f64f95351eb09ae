package rules

import (
	"bytes"
	"crypto/sha256"
	"slices"

	"colophon/ledger/record/pyjson"
)

// ChunkHashPrefix is the prefix of every chunk hash (spec: Citation hashes).
const ChunkHashPrefix = "sha256:"

// AppendChunkHash appends ChunkHashPrefix and the hash of the words in text (spec: Citation
// hashes). It uses scratch as a buffer and returns it as words, so that the next call can reuse it.
func AppendChunkHash(dst, scratch, text []byte) (hash, words []byte) {
	words = AppendWords(slices.Grow(scratch[:0], len(text)), text)
	return AppendHex(append(dst, ChunkHashPrefix...), sha256.Sum256(words)), words
}

// ChunkHash returns ChunkHashPrefix followed by the hash of the words in text (spec: Citation
// hashes).
func ChunkHash(text []byte) string {
	hash, _ := AppendChunkHash(nil, nil, text)
	return string(hash)
}

// Chunk is one of the chunks from which a pinned retrieval selects (spec: Pinned retrieval).
type Chunk struct {
	Hash     []byte // includes ChunkHashPrefix
	Text     []byte // original text
	SourceID []byte // UnknownPlaceholder if the source has no ID
}

// UnknownPlaceholder replaces a missing source ID or section.
const UnknownPlaceholder = "unknown"

// SelectPinnedChunks selects at most topK chunks (spec: Pinned retrieval). The required chunks come
// first, in source order and with only one chunk for each hash. They are followed by the other
// chunks, ordered by hash.
func SelectPinnedChunks(chunks []Chunk, required [][]byte, topK int) []Chunk {
	wanted := make(map[string]bool, len(required)) // true until a chunk with the hash is selected
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

// Citation is one citation of a citations document (spec: Citations document).
type Citation struct {
	ChunkHash []byte
	SourceID  []byte
	Text      []byte // nil if the ledger does not have the text
	Weight    []byte // a JSON number
	Section   []byte // nil if the section is null
}

// AppendCitationsDocument appends the citations document for the given citations as canonical JSON
// (spec: Citations document).
func AppendCitationsDocument(dst []byte, citations []Citation) []byte {
	w := &pyjson.Builder{Buf: dst}
	w.BeginObject()
	w.BeginMember("by_section")
	w.BeginObject()
	for section, members := range bySection(citations) {
		w.BeginMember(section)
		appendCitations(w, members)
	}
	w.EndObject()
	w.BeginMember("all_citations")
	appendCitations(w, citations)
	w.AddInt("total_count", len(citations))
	w.BeginMember("source_ids")
	w.Buf = append(w.Buf, '[')
	for i, id := range sourceIDs(citations) {
		w.WriteComma(i)
		w.Buf = pyjson.AppendString(w.Buf, id)
	}
	w.Buf = append(w.Buf, ']')
	w.EndObject()
	return w.Buf
}

// bySection groups citations by section. Citations whose section is null or empty are in the group
// "unknown".
func bySection(citations []Citation) map[string][]Citation {
	groups := make(map[string][]Citation)
	for _, c := range citations {
		section := string(c.Section)
		if section == "" {
			section = UnknownPlaceholder
		}
		groups[section] = append(groups[section], c)
	}
	return groups
}

func sourceIDs(citations []Citation) [][]byte {
	ids := make([][]byte, len(citations))
	for i, c := range citations {
		ids[i] = c.SourceID
	}
	slices.SortFunc(ids, bytes.Compare)
	return slices.CompactFunc(ids, bytes.Equal)
}

func appendCitations(w *pyjson.Builder, list []Citation) {
	w.Buf = append(w.Buf, '[')
	for i, c := range list {
		w.WriteComma(i)
		w.BeginObject()
		w.AddText("chunk_hash", c.ChunkHash)
		w.AddText("source_id", c.SourceID)
		w.AddNullableText("text", c.Text)
		w.AddRaw("weight", c.Weight)
		w.AddNullableText("section", c.Section)
		w.EndObject()
	}
	w.Buf = append(w.Buf, ']')
}
