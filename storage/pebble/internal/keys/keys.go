// Package keys is how storage/pebble names and writes down what it keeps. It is
// shared with storage/pebble/pebbletest, so that tests change exactly the bytes
// that the database reads.
//
// A key is one byte for the kind, the ledger's number (4 bytes), and the key
// within that kind. Integers are big-endian, so keys of a kind sort by number.
// Number 0 is no ledger: under it stands what concerns the whole database.
package keys

import (
	"bytes"
	"encoding/binary"
	"math"

	"colophon/storage"
)

// FormatVersion is the version of everything in this package. A database that
// was written with another one is not opened.
const FormatVersion = 3

// Ledger is a ledger's number: given at creation, never given again.
type Ledger uint32

const database Ledger = 0

// Kinds of keys. Those in upper case have large values that never change and
// arrive in the order of their keys: these values are kept apart (see Apart).
const (
	kindContent   byte = 'C' // event, slot → bytes
	kindEntry     byte = 'E' // sequence number → entry
	kindPlace     byte = 'd' // digest → event, slot; digest, event → nothing
	kindHead      byte = 'h' // head
	kindInfo      byte = 'i' // info
	kindClaim     byte = 'k' // key digest → record digest, sequence number
	kindLast      byte = 'l' // of the database: last ledger number given
	kindName      byte = 'n' // of the database: ledger name → ledger number
	kindRedaction byte = 'r' // sequence number → that of the redacting event
	kindSetting   byte = 's' // setting name → value
	kindTile      byte = 't' // level, index → hashes
	kindErasure   byte = 'x' // of the database: ledger, event, slot → time, digest
)

// Lengths in bytes of what keys begin with.
const (
	prefixLength = 1 + 4
	seqLength    = 8
)

// MaxLength is the length of the longest key without a name in it.
const MaxLength = prefixLength + storage.HashBytes + seqLength

func prefix(dst []byte, ledger Ledger, kind byte) []byte {
	return binary.BigEndian.AppendUint32(append(dst, kind), uint32(ledger))
}

// span is the range of a ledger's keys of one kind, the end excluded.
func span(ledger Ledger, kind byte) (start, end []byte) {
	start = prefix(nil, ledger, kind)
	if end = prefix(nil, ledger+1, kind); ledger == math.MaxUint32 {
		end = []byte{kind + 1}
	}
	return start, end
}

// Apart reports whether the values of keys like this one are kept apart from
// their keys, and where keys begin for which that is not so or that are of
// another kind; nil if none follow.
func Apart(key []byte) (apart bool, end []byte) {
	for _, kind := range []byte{kindContent, kindEntry} {
		if len(key) == 0 || key[0] < kind {
			return false, []byte{kind}
		}
		if key[0] == kind {
			return true, []byte{kind + 1}
		}
	}
	return false, nil
}

// HasDigest reports whether a key ends in a digest: the place of a content, or a claim.
// Writers look these keys up to learn whether they exist.
func HasDigest(key []byte) bool {
	return len(key) == prefixLength+storage.HashBytes && (key[0] == kindPlace || key[0] == kindClaim)
}

// Digest is the digest of a key for which HasDigest is true.
func Digest(key []byte) storage.Hash { return storage.Hash(key[prefixLength:]) }

// Format is the key of the database's format version. It is the same in every
// version, so that each build can say which one it has met.
func Format() []byte { return []byte{0, 0, 0, 0, 'f'} }

// Last is the key of the last ledger number given.
func Last() []byte { return prefix(nil, database, kindLast) }

// Name is the key under which a ledger's number is found.
func Name(name string) []byte { return append(prefix(nil, database, kindName), name...) }

// Names is the range of all Name keys, the end excluded.
func Names() (start, end []byte) {
	return span(database, kindName)
}

// Info is the key of a ledger's description.
func Info(ledger Ledger) []byte { return prefix(nil, ledger, kindInfo) }

// Head is the key of a ledger's head.
func Head(ledger Ledger) []byte { return prefix(nil, ledger, kindHead) }

// Setting is the key of a named setting.
func Setting(ledger Ledger, name string) []byte {
	return append(prefix(nil, ledger, kindSetting), name...)
}

// AppendEntry appends the key of an entry to dst.
func AppendEntry(dst []byte, ledger Ledger, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(prefix(dst, ledger, kindEntry), seq)
}

// EntrySeq is the sequence number in an entry's key; false if it is none.
func EntrySeq(key []byte) (uint64, bool) {
	if len(key) != prefixLength+seqLength || key[0] != kindEntry {
		return 0, false
	}
	return binary.BigEndian.Uint64(key[prefixLength:]), true
}

// AppendTile appends the key of a hash tile to dst.
func AppendTile(dst []byte, ledger Ledger, level uint8, index uint64) []byte {
	return binary.BigEndian.AppendUint64(append(prefix(dst, ledger, kindTile), level), index)
}

// AppendContent appends the key of the content at a place to dst.
func AppendContent(dst []byte, ledger Ledger, p Place) []byte {
	dst = binary.BigEndian.AppendUint64(prefix(dst, ledger, kindContent), p.Seq)
	return binary.BigEndian.AppendUint16(dst, p.Slot)
}

// AppendPlace appends to dst the key under which a content's place is found.
func AppendPlace(dst []byte, ledger Ledger, digest storage.Hash) []byte {
	return append(prefix(dst, ledger, kindPlace), digest[:]...)
}

// Places is the range of a ledger's place and reference keys, the end excluded.
func Places(ledger Ledger) (start, end []byte) {
	return span(ledger, kindPlace)
}

// AppendReference appends to dst the key that says that the record at seq needs
// a content which an earlier event brought. References follow the content's
// place, in the order of their records, and have no value.
func AppendReference(dst []byte, ledger Ledger, digest storage.Hash, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(AppendPlace(dst, ledger, digest), seq)
}

// ReferenceSeq is the record in a reference key; false if the key is none.
func ReferenceSeq(key []byte) (uint64, bool) {
	if len(key) != MaxLength || key[0] != kindPlace {
		return 0, false
	}
	return binary.BigEndian.Uint64(key[MaxLength-seqLength:]), true
}

// HoldingRange is the range of a content's place and of the references to it, the
// end excluded.
func HoldingRange(ledger Ledger, digest storage.Hash) (start, end []byte) {
	start = AppendPlace(make([]byte, 0, MaxLength), ledger, digest)
	return start, append(AppendReference(nil, ledger, digest, math.MaxUint64), 0)
}

// AppendRedaction appends to dst the key of the redaction of the record at seq.
func AppendRedaction(dst []byte, ledger Ledger, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(prefix(dst, ledger, kindRedaction), seq)
}

// Redactions is the range of a ledger's redaction keys from the record at seq on,
// the end excluded.
func Redactions(ledger Ledger, from uint64) (start, end []byte) {
	_, end = span(ledger, kindRedaction)
	return AppendRedaction(nil, ledger, from), end
}

// RedactionSeq is the record in a redaction key; false if the key is none.
func RedactionSeq(key []byte) (uint64, bool) {
	if len(key) != prefixLength+seqLength || key[0] != kindRedaction {
		return 0, false
	}
	return binary.BigEndian.Uint64(key[prefixLength:]), true
}

// AppendErasure appends to dst the key that says that the content once at a
// place may still be in files of the database.
func AppendErasure(dst []byte, ledger Ledger, p Place) []byte {
	return AppendContent(prefix(dst, database, kindErasure), ledger, p)
}

// Erasures is the range of all erasure keys, the end excluded. They are sorted
// as the keys of the contents are.
func Erasures() (start, end []byte) {
	return span(database, kindErasure)
}

// ErasureContent is the key of the content that an erasure key is about, and its
// ledger; false if the key is none.
func ErasureContent(key []byte) (content []byte, ledger Ledger, ok bool) {
	const length = prefixLength + prefixLength + placeLength
	if len(key) != length || key[0] != kindErasure || key[prefixLength] != kindContent {
		return nil, 0, false
	}
	content = key[prefixLength:]
	return content, Ledger(binary.BigEndian.Uint32(content[1:])), true
}

// AppendClaim appends the key of an idempotency key's claim to dst.
func AppendClaim(dst []byte, ledger Ledger, key storage.Hash) []byte {
	return append(prefix(dst, ledger, kindClaim), key[:]...)
}

// Claims is the range of a ledger's claim keys, the end excluded.
func Claims(ledger Ledger) (start, end []byte) { return span(ledger, kindClaim) }

// Contents is the range of a ledger's content keys, the end excluded.
func Contents(ledger Ledger) (start, end []byte) { return span(ledger, kindContent) }

// Infos is the range of all Info keys, the end excluded.
func Infos() (start, end []byte) { return []byte{kindInfo}, []byte{kindInfo + 1} }

// Family is a kind of keys, as Parse tells them apart.
type Family int

// The families of keys. Unknown is that of keys that nothing of this package makes.
const (
	Unknown Family = iota
	FormatKey
	LastKey
	NameKey
	InfoKey
	HeadKey
	SettingKey
	EntryKey
	TileKey
	ContentKey
	PlaceKey
	ReferenceKey
	RedactionKey
	ClaimKey
	ErasureKey
)

// Parsed is a key taken apart. Family says which members are set.
type Parsed struct {
	Family Family
	Ledger Ledger       // of all keys of a ledger, and of erasures
	Seq    uint64       // of entries, references and redactions
	Level  uint8        // of tiles
	Index  uint64       // of tiles
	Place  Place        // of contents and erasures
	Digest storage.Hash // of places, references and claims
	Name   string       // of names and settings
}

// Parse takes a key apart.
func Parse(key []byte) Parsed {
	if len(key) < prefixLength {
		return Parsed{}
	}
	if bytes.Equal(key, Format()) { // which looks like a ledger's
		return Parsed{Family: FormatKey}
	}
	p := Parsed{Ledger: Ledger(binary.BigEndian.Uint32(key[1:]))}
	rest := key[prefixLength:]
	if p.Ledger == database {
		return p.ofDatabase(key, rest)
	}
	switch kind := key[0]; {
	case kind == kindInfo && len(rest) == 0:
		p.Family = InfoKey
	case kind == kindHead && len(rest) == 0:
		p.Family = HeadKey
	case kind == kindSetting:
		p.Family, p.Name = SettingKey, string(rest)
	case kind == kindEntry && len(rest) == seqLength:
		p.Family, p.Seq = EntryKey, binary.BigEndian.Uint64(rest)
	case kind == kindTile && len(rest) == 1+seqLength:
		p.Family, p.Level, p.Index = TileKey, rest[0], binary.BigEndian.Uint64(rest[1:])
	case kind == kindContent && len(rest) == placeLength:
		p.Family, p.Place = ContentKey, placeIn(rest)
	case kind == kindPlace && len(rest) == storage.HashBytes:
		p.Family, p.Digest = PlaceKey, storage.Hash(rest)
	case kind == kindPlace && len(rest) == storage.HashBytes+seqLength:
		p.Family, p.Digest, p.Seq = ReferenceKey, storage.Hash(rest[:storage.HashBytes]), binary.BigEndian.Uint64(rest[storage.HashBytes:])
	case kind == kindRedaction && len(rest) == seqLength:
		p.Family, p.Seq = RedactionKey, binary.BigEndian.Uint64(rest)
	case kind == kindClaim && len(rest) == storage.HashBytes:
		p.Family, p.Digest = ClaimKey, storage.Hash(rest)
	}
	return p
}

// ofDatabase is Parse for keys of the database as a whole.
func (p Parsed) ofDatabase(key, rest []byte) Parsed {
	switch {
	case bytes.Equal(key, Last()):
		p.Family = LastKey
	case key[0] == kindName:
		p.Family, p.Name = NameKey, string(rest)
	default:
		if content, ledger, ok := ErasureContent(key); ok {
			p.Family, p.Ledger, p.Place = ErasureKey, ledger, placeIn(content[prefixLength:])
		}
	}
	return p
}

func placeIn(b []byte) Place {
	return Place{Seq: binary.BigEndian.Uint64(b), Slot: binary.BigEndian.Uint16(b[seqLength:])}
}

// AfterLedger is where the keys of the next ledger begin, of the kind of key.
func AfterLedger(key []byte, ledger Ledger) []byte {
	_, end := span(ledger, key[0])
	return end
}
