package keys

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"colophon/storage"
)

// Lengths of values in bytes. headLength does not include the checkpoint.
const (
	headLength     = 8 + storage.HashSize + 8
	locationLength = 8 + 2
	claimLength    = storage.HashSize + 8

	erasureLength = 8 + storage.HashSize
)

// Location says where a piece of content is stored: the event that posted it, and its slot in that
// event.
type Location struct {
	Seq  uint64 // seq of the event that posted the content
	Slot uint16 // position among the event's pieces of content
}

// LocationValue is the value of a location key. It says where a piece of content is stored. The
// record that posted the content needs it until that record is redacted. After that, only the
// records that refer to the content need it.
type LocationValue struct {
	Location
	Redacted bool // whether the event that posted the content is redacted
}

// Erasure is the value of an erasure key: when a piece of content was erased, and its digest.
type Erasure struct {
	TimeMicros int64        // time of the commit that erased the content, in microseconds since 1970 UTC
	Digest     storage.Hash // digest of the erased content
}

// AppendHeadValue appends h to dst, encoded as size, tip, time, and checkpoint.
func AppendHeadValue(dst []byte, h storage.Head) []byte {
	dst = binary.BigEndian.AppendUint64(dst, h.Size)
	dst = append(dst, h.Tip[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.TimeMicros))
	return append(dst, h.Checkpoint...)
}

// DecodeHead reads what AppendHeadValue wrote. The checkpoint is a copy of the bytes in b, or nil if it
// is empty.
func DecodeHead(b []byte) (storage.Head, error) {
	if len(b) < headLength {
		return storage.Head{}, fmt.Errorf("%w: the head has %d bytes, but must have at least %d", storage.ErrDamaged, len(b), headLength)
	}
	h := storage.Head{
		Size:       binary.BigEndian.Uint64(b),
		Tip:        storage.Hash(b[8:40]),
		TimeMicros: int64(binary.BigEndian.Uint64(b[40:])),
	}
	if len(b) > headLength {
		h.Checkpoint = append([]byte(nil), b[headLength:]...)
	}
	return h, nil
}

// AppendLocationValue appends h to dst, encoded as the sequence number, the slot, and a zero byte
// if h.Redacted is true.
func AppendLocationValue(dst []byte, h LocationValue) []byte {
	dst = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint64(dst, h.Seq), h.Slot)
	if h.Redacted {
		dst = append(dst, 0)
	}
	return dst
}

// DecodeLocationValue reads what AppendLocationValue wrote.
func DecodeLocationValue(b []byte) (LocationValue, error) {
	redacted := len(b) == locationLength+1 && b[locationLength] == 0
	if len(b) != locationLength && !redacted {
		return LocationValue{}, fmt.Errorf("%w: a content location has %d bytes, but must have %d", storage.ErrDamaged, len(b), locationLength)
	}
	location := Location{Seq: binary.BigEndian.Uint64(b), Slot: binary.BigEndian.Uint16(b[8:])}
	return LocationValue{Location: location, Redacted: redacted}, nil
}

// AppendErasureValue appends to dst the value of an erasure key: the time and the digest.
func AppendErasureValue(dst []byte, e Erasure) []byte {
	return append(binary.BigEndian.AppendUint64(dst, uint64(e.TimeMicros)), e.Digest[:]...)
}

// DecodeErasure reads what AppendErasureValue wrote.
func DecodeErasure(b []byte) (Erasure, error) {
	if len(b) != erasureLength {
		return Erasure{}, fmt.Errorf("%w: an erasure mark has %d bytes, but must have %d", storage.ErrDamaged, len(b), erasureLength)
	}
	return Erasure{TimeMicros: int64(binary.BigEndian.Uint64(b)), Digest: storage.Hash(b[8:])}, nil
}

// EncodeSeq returns the value of a redaction key: the sequence number of the redacting event.
func EncodeSeq(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// DecodeSeq reads what EncodeSeq wrote.
func DecodeSeq(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("%w: a sequence number has %d bytes, but must have 8", storage.ErrDamaged, len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}

// AppendClaimValue appends to dst the value of a claim key: the digest and the sequence number of
// the record that has the idempotency key.
func AppendClaimValue(dst []byte, k storage.Claim) []byte {
	return binary.BigEndian.AppendUint64(append(dst, k.RecordDigest[:]...), k.Seq)
}

// DecodeClaim reads what AppendClaimValue wrote. The value does not contain the idempotency key, so
// the caller must pass it.
func DecodeClaim(key storage.Hash, b []byte) (storage.Claim, error) {
	if len(b) != claimLength {
		return storage.Claim{}, fmt.Errorf("%w: a claim has %d bytes, but must have %d", storage.ErrDamaged, len(b), claimLength)
	}
	return storage.Claim{
		KeyDigest:    key,
		RecordDigest: storage.Hash(b[:storage.HashSize]),
		Seq:          binary.BigEndian.Uint64(b[storage.HashSize:]),
	}, nil
}

// EncodeNumber encodes n as the value of a key that FormatVersionKey, LastLedgerKey, or NameKey
// returns.
func EncodeNumber(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// DecodeNumber reads what EncodeNumber wrote.
func DecodeNumber(b []byte) (uint32, error) {
	if len(b) != 4 {
		return 0, fmt.Errorf("%w: a stored number has %d bytes, but must have 4", storage.ErrDamaged, len(b))
	}
	return binary.BigEndian.Uint32(b), nil
}

// info is the JSON form of a storage.LedgerInfo. JSON is fast enough, because the description of a
// ledger is small and seldom read. It also lets later versions add members.
type info struct {
	Name    string    `json:"name"`
	Origin  string    `json:"origin"`
	Created time.Time `json:"created"`
	Frozen  bool      `json:"frozen"` // true if the ledger accepts no more events

	RejectMismatch bool `json:"reject_mismatch"`
}

// EncodeInfo encodes a ledger's description as JSON, with the creation time in UTC. It returns an
// error if RFC 3339 cannot represent that time.
func EncodeInfo(i storage.LedgerInfo) ([]byte, error) {
	i.Created = i.Created.UTC()
	b, err := json.Marshal(info(i))
	if err != nil {
		return nil, fmt.Errorf("encoding the description of ledger %q: %w", i.Name, err)
	}
	return b, nil
}

// DecodeInfo reads what EncodeInfo wrote.
func DecodeInfo(b []byte) (storage.LedgerInfo, error) {
	var i info
	if err := json.Unmarshal(b, &i); err != nil {
		return storage.LedgerInfo{}, fmt.Errorf("%w: decoding a ledger's description: %w", storage.ErrDamaged, err)
	}
	return storage.LedgerInfo(i), nil
}
