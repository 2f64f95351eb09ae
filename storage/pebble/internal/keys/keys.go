// Package keys encodes the keys and values that storage/pebble stores. storage/pebble/pebbletest
// uses it too, so that tests change exactly the bytes that the database reads.
//
// A key consists of one byte for its kind, the ledger's number (4 bytes), and the rest of the key,
// which depends on the kind. Integers are big-endian, so keys of a kind sort by number. Keys with
// the ledger number 0 belong to the database itself.
package keys

import (
	"bytes"
	"encoding/binary"
	"math"

	"colophon/storage"
)

// FormatVersion is the version of all encodings in this package. A database with another version
// cannot be opened.
const FormatVersion = 4

// LedgerNumber identifies a ledger in the keys of a database. It is assigned when the ledger is
// created, and never reused.
type LedgerNumber uint32

const database LedgerNumber = 0

// Kinds of keys. The comments show the rest of the key, an arrow, and the value. Kinds with an
// upper-case letter have large values that never change and arrive in key order. These values are
// stored in value files, apart from their keys (see HasSeparateValues).
const (
	kindContent   byte = 'C' // event, slot → bytes
	kindEntry     byte = 'E' // sequence number → entry
	kindLocation  byte = 'd' // digest → event, slot (a location); or digest, event → empty value (a reference)
	kindHead      byte = 'h' // the ledger's head
	kindInfo      byte = 'i' // the ledger's description
	kindClaim     byte = 'k' // key digest → record digest, sequence number
	kindLast      byte = 'l' // last assigned ledger number (a key of the database itself)
	kindName      byte = 'n' // ledger name → ledger number (a key of the database itself)
	kindRedaction byte = 'r' // sequence number → sequence number of the redacting event
	kindSetting   byte = 's' // setting name → value
	kindTile      byte = 't' // level, index → hashes
	kindErasure   byte = 'x' // ledger, event, slot → time, digest (a key of the database itself)
)

// Lengths of parts of keys, in bytes.
const (
	prefixLength = 1 + 4
	seqLength    = 8
)

// MaxLengthWithoutName is the length in bytes of the longest key that contains no name.
const MaxLengthWithoutName = prefixLength + storage.HashSize + seqLength

func prefix(dst []byte, ledger LedgerNumber, kind byte) []byte {
	return binary.BigEndian.AppendUint32(append(dst, kind), uint32(ledger))
}

// span returns the range of a ledger's keys of the given kind. The end is excluded.
func span(ledger LedgerNumber, kind byte) (start, end []byte) {
	start = prefix(nil, ledger, kind)
	if end = prefix(nil, ledger+1, kind); ledger == math.MaxUint32 {
		end = []byte{kind + 1}
	}
	return start, end
}

// HasSeparateValues reports whether the values of all keys from key up to end are stored in value
// files. If it returns false, none of them are. end is the first greater key for which the result
// can differ. It is nil if the result is the same for all greater keys.
func HasSeparateValues(key []byte) (separate bool, end []byte) {
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

// HasDigest reports whether key is the key of a location or of a claim, which both end in a digest.
// Writers look up such keys to check whether they exist.
func HasDigest(key []byte) bool {
	return len(key) == prefixLength+storage.HashSize && (key[0] == kindLocation || key[0] == kindClaim)
}

// Digest returns the digest in a key for which HasDigest returns true.
func Digest(key []byte) storage.Hash { return storage.Hash(key[prefixLength:]) }

// FormatVersionKey returns the key of the database's format version. This key is the same in every version,
// so that every build can read the version of any database.
func FormatVersionKey() []byte { return []byte{0, 0, 0, 0, 'f'} }

// LastLedgerKey returns the key of the last assigned ledger number.
func LastLedgerKey() []byte { return prefix(nil, database, kindLast) }

// NameKey returns the key that maps a ledger's name to its number.
func NameKey(name string) []byte { return append(prefix(nil, database, kindName), name...) }

// NameRange returns the range of all keys that NameKey can return. The end is excluded.
func NameRange() (start, end []byte) {
	return span(database, kindName)
}

// InfoKey returns the key of a ledger's description.
func InfoKey(ledger LedgerNumber) []byte { return prefix(nil, ledger, kindInfo) }

// HeadKey returns the key of a ledger's head.
func HeadKey(ledger LedgerNumber) []byte { return prefix(nil, ledger, kindHead) }

// SettingKey returns the key of a named setting.
func SettingKey(ledger LedgerNumber, name string) []byte {
	return append(prefix(nil, ledger, kindSetting), name...)
}

// AppendEntryKey appends the key of an entry to dst.
func AppendEntryKey(dst []byte, ledger LedgerNumber, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(prefix(dst, ledger, kindEntry), seq)
}

// EntrySeq returns the sequence number in an entry's key, or false for other keys.
func EntrySeq(key []byte) (uint64, bool) {
	if len(key) != prefixLength+seqLength || key[0] != kindEntry {
		return 0, false
	}
	return binary.BigEndian.Uint64(key[prefixLength:]), true
}

// AppendTileKey appends the key of a hash tile to dst.
func AppendTileKey(dst []byte, ledger LedgerNumber, level uint8, index uint64) []byte {
	return binary.BigEndian.AppendUint64(append(prefix(dst, ledger, kindTile), level), index)
}

// AppendContentKey appends to dst the key of the content stored at p.
func AppendContentKey(dst []byte, ledger LedgerNumber, p Location) []byte {
	dst = binary.BigEndian.AppendUint64(prefix(dst, ledger, kindContent), p.Seq)
	return binary.BigEndian.AppendUint16(dst, p.Slot)
}

// AppendLocationKey appends to dst the key under which the location of a piece of content is
// stored.
func AppendLocationKey(dst []byte, ledger LedgerNumber, digest storage.Hash) []byte {
	return append(prefix(dst, ledger, kindLocation), digest[:]...)
}

// LocationAndReferenceRange returns the range of a ledger's location and reference keys. The end is
// excluded.
func LocationAndReferenceRange(ledger LedgerNumber) (start, end []byte) {
	return span(ledger, kindLocation)
}

// AppendReferenceKey appends to dst the key of a reference. A reference says that the record at seq
// needs content that an earlier event posted. Reference keys sort after the location key of the
// content, by sequence number. Their values are empty.
func AppendReferenceKey(dst []byte, ledger LedgerNumber, digest storage.Hash, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(AppendLocationKey(dst, ledger, digest), seq)
}

// ReferenceSeq returns the sequence number of the record in a reference key, or false for other
// keys.
func ReferenceSeq(key []byte) (uint64, bool) {
	if len(key) != MaxLengthWithoutName || key[0] != kindLocation {
		return 0, false
	}
	return binary.BigEndian.Uint64(key[MaxLengthWithoutName-seqLength:]), true
}

// DigestRange returns the range that contains the location key and the reference keys of a piece of
// content. The end is excluded.
func DigestRange(ledger LedgerNumber, digest storage.Hash) (start, end []byte) {
	start = AppendLocationKey(make([]byte, 0, MaxLengthWithoutName), ledger, digest)
	return start, append(AppendReferenceKey(nil, ledger, digest, math.MaxUint64), 0)
}

// AppendRedactionKey appends to dst the key of the redaction of the record at seq.
func AppendRedactionKey(dst []byte, ledger LedgerNumber, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(prefix(dst, ledger, kindRedaction), seq)
}

// RedactionRange returns the range of a ledger's redaction keys for records whose sequence number is
// at least from. The end is excluded.
func RedactionRange(ledger LedgerNumber, from uint64) (start, end []byte) {
	_, end = span(ledger, kindRedaction)
	return AppendRedactionKey(nil, ledger, from), end
}

// RedactionSeq returns the sequence number of the redacted record in a redaction key, or false for
// other keys.
func RedactionSeq(key []byte) (uint64, bool) {
	if len(key) != prefixLength+seqLength || key[0] != kindRedaction {
		return 0, false
	}
	return binary.BigEndian.Uint64(key[prefixLength:]), true
}

// AppendErasureKey appends to dst the key of an erasure mark. The mark says that the deleted
// content that was stored at p might still be in files.
func AppendErasureKey(dst []byte, ledger LedgerNumber, p Location) []byte {
	return AppendContentKey(prefix(dst, database, kindErasure), ledger, p)
}

// ErasureRange returns the range of all erasure keys. They sort in the order of the content keys that
// they contain. The end is excluded.
func ErasureRange() (start, end []byte) {
	return span(database, kindErasure)
}

// ErasureContentKey returns the content key that is part of an erasure key, and the ledger of that
// content. ok is false for other keys.
func ErasureContentKey(key []byte) (content []byte, ledger LedgerNumber, ok bool) {
	const length = prefixLength + prefixLength + locationLength
	if len(key) != length || key[0] != kindErasure || key[prefixLength] != kindContent {
		return nil, 0, false
	}
	content = key[prefixLength:]
	return content, LedgerNumber(binary.BigEndian.Uint32(content[1:])), true
}

// AppendClaimKey appends to dst the key under which the claim of an idempotency key is stored.
func AppendClaimKey(dst []byte, ledger LedgerNumber, key storage.Hash) []byte {
	return append(prefix(dst, ledger, kindClaim), key[:]...)
}

// ClaimRange returns the range of a ledger's claim keys. The end is excluded.
func ClaimRange(ledger LedgerNumber) (start, end []byte) { return span(ledger, kindClaim) }

// ContentRange returns the range of a ledger's content keys. The end is excluded.
func ContentRange(ledger LedgerNumber) (start, end []byte) { return span(ledger, kindContent) }

// InfoRange returns the range of all keys that InfoKey can return. The end is excluded.
func InfoRange() (start, end []byte) { return []byte{kindInfo}, []byte{kindInfo + 1} }

// Family says what a key is for. Keys with the same kind byte can have different families: for
// example, FamilyLocation and FamilyReference.
type Family int

// The families of keys. A key that this package did not create has the family FamilyUnknown.
const (
	FamilyUnknown    Family = iota // not a key of this package
	FamilyFormat                   // the key of the format version
	FamilyLastLedger               // the key of the last assigned ledger number
	FamilyName                     // keys that map a ledger's name to its number
	FamilyInfo                     // keys of the descriptions of ledgers
	FamilyHead                     // keys of the heads of ledgers
	FamilySetting                  // keys of the settings of ledgers
	FamilyEntry                    // keys of log entries
	FamilyTile                     // keys of hash tiles
	FamilyContent                  // keys of pieces of content
	FamilyLocation                 // keys that map a digest to the location of the content
	FamilyReference                // keys that say which events refer to a piece of content
	FamilyRedaction                // keys that map a record to the event that redacts it
	FamilyClaim                    // keys of the claims of idempotency keys
	FamilyErasure                  // keys of the marks of erased content
)

// ParsedKey holds the family and the parts of a key. Family determines which fields are set.
type ParsedKey struct {
	Family   Family
	Ledger   LedgerNumber // set for all keys of a ledger and for erasures
	Seq      uint64       // set for entries, references, and redactions
	Level    uint8        // set for tiles
	Index    uint64       // set for tiles
	Location Location     // set for contents and erasures
	Digest   storage.Hash // set for locations, references, and claims
	Name     string       // set for names and settings
}

// Parse splits a key into its parts. It returns the family FamilyUnknown for a key that this
// package does not create.
func Parse(key []byte) ParsedKey {
	if len(key) < prefixLength {
		return ParsedKey{}
	}
	if bytes.Equal(key, FormatVersionKey()) { // would otherwise be parsed as a ledger's key
		return ParsedKey{Family: FamilyFormat}
	}
	p := ParsedKey{Ledger: LedgerNumber(binary.BigEndian.Uint32(key[1:]))}
	rest := key[prefixLength:]
	if p.Ledger == database {
		return p.ofDatabase(key, rest)
	}
	switch kind := key[0]; {
	case kind == kindInfo && len(rest) == 0:
		p.Family = FamilyInfo
	case kind == kindHead && len(rest) == 0:
		p.Family = FamilyHead
	case kind == kindSetting:
		p.Family, p.Name = FamilySetting, string(rest)
	case kind == kindEntry && len(rest) == seqLength:
		p.Family, p.Seq = FamilyEntry, binary.BigEndian.Uint64(rest)
	case kind == kindTile && len(rest) == 1+seqLength:
		p.Family, p.Level, p.Index = FamilyTile, rest[0], binary.BigEndian.Uint64(rest[1:])
	case kind == kindContent && len(rest) == locationLength:
		p.Family, p.Location = FamilyContent, locationIn(rest)
	case kind == kindLocation && len(rest) == storage.HashSize:
		p.Family, p.Digest = FamilyLocation, storage.Hash(rest)
	case kind == kindLocation && len(rest) == storage.HashSize+seqLength:
		p.Family, p.Digest, p.Seq = FamilyReference, storage.Hash(rest[:storage.HashSize]), binary.BigEndian.Uint64(rest[storage.HashSize:])
	case kind == kindRedaction && len(rest) == seqLength:
		p.Family, p.Seq = FamilyRedaction, binary.BigEndian.Uint64(rest)
	case kind == kindClaim && len(rest) == storage.HashSize:
		p.Family, p.Digest = FamilyClaim, storage.Hash(rest)
	}
	return p
}

// ofDatabase completes p for a key that belongs to the database itself, not to a ledger.
func (p ParsedKey) ofDatabase(key, rest []byte) ParsedKey {
	switch {
	case bytes.Equal(key, LastLedgerKey()):
		p.Family = FamilyLastLedger
	case key[0] == kindName:
		p.Family, p.Name = FamilyName, string(rest)
	default:
		if content, ledger, ok := ErasureContentKey(key); ok {
			p.Family, p.Ledger, p.Location = FamilyErasure, ledger, locationIn(content[prefixLength:])
		}
	}
	return p
}

func locationIn(b []byte) Location {
	return Location{Seq: binary.BigEndian.Uint64(b), Slot: binary.BigEndian.Uint16(b[seqLength:])}
}

// LedgerUpperBound returns the exclusive upper bound of the ledger's keys of the same kind as key.
func LedgerUpperBound(key []byte, ledger LedgerNumber) []byte {
	_, end := span(ledger, key[0])
	return end
}
