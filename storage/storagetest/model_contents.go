package storagetest

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/storage"
)

// drawRedactions adds redactions of random records with seq < size to b and to the model. Each
// redaction names all content of its record. Some also name other content, in violation of the
// contract. That content must not be affected.
func (model *modelLedger) drawRedactions(r *rapid.T, b *storage.Batch, size uint64) {
	if size == 0 {
		return
	}
	record := rapid.Custom(func(r *rapid.T) uint64 { // the latest records are most likely to have content
		return size - 1 - min(size-1, rapid.Uint64Max(5).Draw(r, "back"))
	})
	for _, seq := range rapid.SliceOfN(record, 0, 4).Draw(r, "redact") {
		by := rapid.Uint64Range(size, b.Head.Size-1).Draw(r, "by")
		names := rapid.SliceOfN(rapid.SampledFrom(modelWords()), 0, 1).Draw(r, "others")
		for _, digest := range modelWords() {
			if slices.Contains(model.references[digest], seq) {
				names = append(names, digest)
			}
		}
		b.Redactions = append(b.Redactions, redaction(seq, by, names...))
		if _, already := model.redactions[seq]; already {
			continue
		}
		model.redactions[seq] = by
		for _, digest := range names {
			left := slices.DeleteFunc(slices.Clone(model.references[digest]), func(n uint64) bool { return n == seq })
			model.references[digest] = left
			if len(left) == 0 {
				delete(model.references, digest)
				delete(model.contents, digest)
			}
		}
	}
}

// drawContents adds random content to b and to the model, for the events with seq ≥ size.
func (model *modelLedger) drawContents(r *rapid.T, b *storage.Batch, size uint64) {
	word := rapid.SampledFrom(modelWords())
	for seq := size; seq < b.Head.Size; seq++ {
		for slot, digest := range rapid.SliceOfN(word, 0, 3).Draw(r, "contents") {
			text := fmt.Sprintf("%s of event %d slot %d", digest, seq, slot)
			if _, held := model.contents[digest]; !held {
				model.contents[digest] = text
			}
			if needs := model.references[digest]; !slices.Contains(needs, seq) {
				model.references[digest] = append(slices.Clone(needs), seq)
			}
			c := content(digest, seq, text)
			c.Slot = uint16(slot)
			b.Contents = append(b.Contents, c)
		}
	}
}

// checkRedactions compares the redactions of all records, and of one record that does not exist
// yet, with the model.
func (m *machine) checkRedactions(r *rapid.T, store storage.Store, model *modelLedger) {
	for seq := range model.head.Size + 1 {
		by, err := store.RedactingSeq(m.t.Context(), seq)
		want, redacted := model.redactions[seq]
		if !redacted {
			require.ErrorIs(r, err, storage.ErrNotFound)
			continue
		}
		require.NoError(r, err)
		require.Equal(r, want, by)
	}
	all := make(map[uint64]uint64)
	for redaction, err := range store.Redactions(m.t.Context()) {
		require.NoError(r, err)
		all[redaction.Seq] = redaction.RedactingSeq
	}
	require.Equal(r, model.redactions, all)
}
