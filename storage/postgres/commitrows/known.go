package commitrows

import "colophon/storage"

// knownDigests is the number of digests in a generation of KnownContents.
const knownDigests = 4096

// KnownContents holds digests of content that the ledger stores, so that a commit neither looks up this
// content nor tries to insert it. If all records share a few system prompts, this is a third of the
// content. A digest is forgotten after at least knownDigests others have been added and no commit has used it
// meanwhile. The zero value is empty. It is not safe for concurrent use.
type KnownContents struct{ recent, older map[storage.Hash]struct{} }

// Contains reports whether the ledger is known to store the content with the given digest.
func (k *KnownContents) Contains(digest storage.Hash) bool {
	_, known := k.recent[digest]
	if !known {
		_, known = k.older[digest]
	}
	return known
}

// Add adds the content of a batch that has been committed. If the batch redacts records, Add forgets all
// digests instead, because content may have been deleted.
func (k *KnownContents) Add(b *storage.Batch) {
	if len(b.Redactions) > 0 {
		k.Clear()
		return
	}
	for i := range b.Contents {
		if len(k.recent) == knownDigests {
			k.recent, k.older = nil, k.recent
		}
		if k.recent == nil {
			k.recent = make(map[storage.Hash]struct{})
		}
		k.recent[b.Contents[i].Digest] = struct{}{}
	}
}

// Clear forgets all digests. What KnownContents holds is valid only for a commit that builds on the head and
// epoch of the last Add. So Clear must be called before a commit builds on another head, which another process
// may have written, or which a standby had when it was promoted.
func (k *KnownContents) Clear() { k.recent, k.older = nil, nil }
