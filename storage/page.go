package storage

import "context"

// PageReader is a Reader that can read what it stores for many records together. If the database is on
// another machine, this takes far fewer round trips than the other methods of Reader.
type PageReader interface {
	Reader
	// ReadPage reads what is stored for the records from seq first up to, but not including, seq end.
	// digests are the digests of the content that these records name, and keys are the digests of their
	// idempotency keys; both may contain duplicates. The page agrees with the other methods of Reader, as
	// long as nothing writes to the ledger.
	ReadPage(ctx context.Context, first, end uint64, digests, keys []Hash) (*Page, error)
}

// Page is what a ledger stores for consecutive records, besides their entries.
type Page struct {
	// Contents has the stored content, by digest. The slice is nil if the content is longer than
	// MaxPageContent.
	Contents map[Hash][]byte
	// References says for which of the records each piece of content is kept.
	References map[Reference]bool
	Redactions map[uint64]uint64 // maps the seq of each redacted record to the seq of the event that redacted it
	Claims     map[Hash]Claim    // claims by key
}

// Reference says that a piece of content is kept for the record at Seq.
type Reference struct {
	Digest Hash
	Seq    uint64
}

// MaxPageContent is the maximum length, in bytes, of content in a Page. It bounds the memory of a page.
const MaxPageContent = 16 << 10

// PageReaderOf returns r as a PageReader, or nil if r cannot read pages. If r wraps another Reader, from which
// it reads content, references, redactions, and claims, it can return that Reader from a method
// Unwrap() Reader.
func PageReaderOf(r Reader) PageReader {
	for {
		if pages, can := r.(PageReader); can {
			return pages
		}
		wrapper, can := r.(interface{ Unwrap() Reader })
		if !can {
			return nil
		}
		r = wrapper.Unwrap()
	}
}
