package keys_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/storage"
	"colophon/storage/pebble/internal/keys"
)

func digest(b byte) storage.Hash { return storage.Hash(bytes.Repeat([]byte{b}, storage.HashSize)) }

// TestLayout pins the encoding on disk. If it changes, FormatVersion must change.
func TestLayout(t *testing.T) {
	d := hex.EncodeToString(bytes.Repeat([]byte{0xab}, 32))
	location := keys.Location{Seq: 1, Slot: 2}
	claim := storage.Claim{RecordDigest: digest(0xab), Seq: 3}
	head := storage.Head{Size: 1, Tip: digest(0xab), TimeMicros: -1, Checkpoint: []byte("c")}
	for want, got := range map[string][]byte{
		"00000000" + "66":                               keys.FormatVersionKey(),
		"6c" + "00000000":                               keys.LastLedgerKey(),
		"6e" + "00000000" + "6162":                      keys.NameKey("ab"),
		"69" + "00000102":                               keys.InfoKey(0x102),
		"68" + "00000102":                               keys.HeadKey(0x102),
		"73" + "00000102" + "6162":                      keys.SettingKey(0x102, "ab"),
		"45" + "00000102" + "0000000000000003":          keys.AppendEntryKey(nil, 0x102, 3),
		"74" + "00000102" + "04" + "0000000000000003":   keys.AppendTileKey(nil, 0x102, 4, 3),
		"43" + "00000102" + "0000000000000001" + "0002": keys.AppendContentKey(nil, 0x102, location),
		"64" + "00000102" + d:                           keys.AppendLocationKey(nil, 0x102, digest(0xab)),
		"6b" + "00000102" + d:                           keys.AppendClaimKey(nil, 0x102, digest(0xab)),
		"64" + "00000102" + d + "0000000000000003":      keys.AppendReferenceKey(nil, 0x102, digest(0xab), 3),
		"72" + "00000102" + "0000000000000003":          keys.AppendRedactionKey(nil, 0x102, 3),
		"0000000000000001" + "0002":                     keys.AppendLocationValue(nil, keys.LocationValue{Location: location}),
		"0000000000000001" + "0002" + "00":              keys.AppendLocationValue(nil, keys.LocationValue{Location: location, Redacted: true}),
		"0000000000000003":                              keys.EncodeSeq(3),
		"ffffffffffffffff" + d:                          keys.AppendErasureValue(nil, keys.Erasure{TimeMicros: -1, Digest: digest(0xab)}),
		"78" + "00000000" + "43" + "00000102" + "0000000000000001" + "0002": keys.AppendErasureKey(nil, 0x102, location),
		d + "0000000000000003":                             keys.AppendClaimValue(nil, claim),
		"0000000000000001" + d + "ffffffffffffffff" + "63": keys.AppendHeadValue(nil, head),
		"00000004": keys.EncodeNumber(keys.FormatVersion),
	} {
		require.Equal(t, want, hex.EncodeToString(got))
	}
}

func TestRanges(t *testing.T) {
	start, end := keys.LocationAndReferenceRange(7)
	for _, key := range [][]byte{keys.AppendLocationKey(nil, 7, digest(0)), keys.AppendLocationKey(nil, 7, digest(0xff))} {
		require.True(t, bytes.Compare(start, key) <= 0 && bytes.Compare(key, end) < 0)
		require.LessOrEqual(t, len(key), keys.MaxLengthWithoutName)
	}
	for _, key := range [][]byte{keys.AppendLocationKey(nil, 6, digest(0xff)), keys.AppendLocationKey(nil, 8, digest(0)), keys.AppendEntryKey(nil, 7, 0)} {
		require.False(t, bytes.Compare(start, key) <= 0 && bytes.Compare(key, end) < 0)
	}
	start, end = keys.DigestRange(7, digest(1))
	for _, key := range [][]byte{keys.AppendLocationKey(nil, 7, digest(1)), keys.AppendReferenceKey(nil, 7, digest(1), 0), keys.AppendReferenceKey(nil, 7, digest(1), math.MaxUint64)} {
		require.True(t, bytes.Compare(start, key) <= 0 && bytes.Compare(key, end) < 0)
		require.LessOrEqual(t, len(key), keys.MaxLengthWithoutName)
	}
	next := digest(1)
	next[storage.HashSize-1]++
	for _, key := range [][]byte{keys.AppendReferenceKey(nil, 7, digest(0), math.MaxUint64), keys.AppendLocationKey(nil, 7, next)} {
		require.False(t, bytes.Compare(start, key) <= 0 && bytes.Compare(key, end) < 0)
	}
	start, end = keys.ClaimRange(math.MaxUint32)
	require.Greater(t, string(keys.AppendClaimKey(nil, math.MaxUint32, digest(0xff))), string(start))
	require.Less(t, string(keys.AppendClaimKey(nil, math.MaxUint32, digest(0xff))), string(end))
	require.Less(t, string(end), string(keys.LastLedgerKey()))
	start, end = keys.RedactionRange(7, 3)
	for _, key := range [][]byte{keys.AppendRedactionKey(nil, 7, 3), keys.AppendRedactionKey(nil, 7, math.MaxUint64)} {
		require.True(t, bytes.Compare(start, key) <= 0 && bytes.Compare(key, end) < 0)
	}
	for _, key := range [][]byte{keys.AppendRedactionKey(nil, 7, 2), keys.SettingKey(7, ""), keys.AppendRedactionKey(nil, 8, 3)} {
		require.False(t, bytes.Compare(start, key) <= 0 && bytes.Compare(key, end) < 0)
	}
	start, end = keys.ErasureRange()
	key := keys.AppendErasureKey(nil, math.MaxUint32, keys.Location{Seq: math.MaxUint64, Slot: math.MaxUint16})
	require.True(t, bytes.Compare(start, key) <= 0 && bytes.Compare(key, end) < 0)
	start, end = keys.NameRange()
	for _, name := range []string{"", "a", "\xff\xff"} {
		key := keys.NameKey(name)
		require.True(t, bytes.Compare(start, key) <= 0 && bytes.Compare(key, end) < 0)
		require.Equal(t, name, string(key[len(start):]))
	}
}

// HasSeparateValues returns true only for the keys of entries and content. Its second result is a
// greater key for which the first result can differ. It is nil if there is no such key.
func TestHasSeparateValues(t *testing.T) {
	content, entry := keys.AppendContentKey(nil, math.MaxUint32, keys.Location{Seq: math.MaxUint64}), keys.AppendEntryKey(nil, 0, 0)
	for _, key := range [][]byte{content, entry} {
		separate, end := keys.HasSeparateValues(key)
		require.True(t, separate)
		require.Less(t, string(key), string(end))
		separate, _ = keys.HasSeparateValues(end)
		require.False(t, separate)
	}
	_, end := keys.HasSeparateValues(content)
	require.LessOrEqual(t, string(end), string(entry))
	for key, follows := range map[string][]byte{
		"": content, string(keys.FormatVersionKey()): content, string(end): entry,
	} {
		separate, end := keys.HasSeparateValues([]byte(key))
		require.False(t, separate)
		require.LessOrEqual(t, string(end), string(follows))
		require.Greater(t, string(end), key)
	}
	for _, key := range [][]byte{keys.AppendLocationKey(nil, 0, digest(0)), keys.HeadKey(1), keys.AppendTileKey(nil, 7, 0, 0), keys.AppendErasureKey(nil, 0, keys.Location{})} {
		separate, end := keys.HasSeparateValues(key)
		require.False(t, separate)
		require.Nil(t, end)
	}
}

func TestHasDigest(t *testing.T) {
	require.True(t, keys.HasDigest(keys.AppendLocationKey(nil, 1, digest(2))))
	require.True(t, keys.HasDigest(keys.AppendClaimKey(nil, 1, digest(2))))
	require.Equal(t, digest(2), keys.Digest(keys.AppendLocationKey(nil, 1, digest(2))))
	require.Equal(t, digest(2), keys.Digest(keys.AppendClaimKey(nil, 1, digest(2))))
	for _, key := range [][]byte{nil, keys.AppendReferenceKey(nil, 1, digest(2), 3), keys.AppendEntryKey(nil, 1, 2), keys.SettingKey(1, string(make([]byte, 32)))} {
		require.False(t, keys.HasDigest(key))
	}
}

// Entry keys sort by sequence number, and EntrySeq accepts only entry keys.
func TestEntryOrder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		seqs := rapid.SliceOfN(rapid.Uint64(), 2, 20).Draw(r, "seqs")
		var entries [][]byte
		for _, seq := range seqs {
			entries = append(entries, keys.AppendEntryKey(nil, 1, seq))
		}
		slices.Sort(seqs)
		slices.SortFunc(entries, bytes.Compare)
		for i, entry := range entries {
			seq, ok := keys.EntrySeq(entry)
			require.True(r, ok)
			require.Equal(r, seqs[i], seq)
		}
	})
	for _, other := range [][]byte{nil, keys.HeadKey(1), keys.AppendTileKey(nil, 1, 0, 0), keys.AppendContentKey(nil, 1, keys.Location{}), keys.AppendEntryKey(nil, 1, 5)[:12]} {
		_, ok := keys.EntrySeq(other)
		require.False(t, ok)
	}
}

// Each function that extracts part of a key returns the encoded value and refuses other kinds of
// keys.
func TestKeyParts(t *testing.T) {
	seq, ok := keys.ReferenceSeq(keys.AppendReferenceKey(nil, 1, digest(2), 3))
	require.True(t, ok)
	require.Equal(t, uint64(3), seq)
	seq, ok = keys.RedactionSeq(keys.AppendRedactionKey(nil, 1, 7))
	require.True(t, ok)
	require.Equal(t, uint64(7), seq)
	location := keys.Location{Seq: 4, Slot: 5}
	content, ledger, ok := keys.ErasureContentKey(keys.AppendErasureKey(nil, 6, location))
	require.True(t, ok)
	require.Equal(t, keys.LedgerNumber(6), ledger)
	require.Equal(t, keys.AppendContentKey(nil, 6, location), content)
	for _, other := range [][]byte{nil, keys.AppendLocationKey(nil, 1, digest(2)), keys.AppendClaimKey(nil, 1, digest(2)), keys.AppendErasureKey(nil, 1, location)[:18]} {
		_, ok := keys.ReferenceSeq(other)
		require.False(t, ok)
		_, ok = keys.RedactionSeq(other)
		require.False(t, ok)
		_, _, ok = keys.ErasureContentKey(other)
		require.False(t, ok)
	}
}

func TestInfo(t *testing.T) {
	info := storage.LedgerInfo{Name: "a", Origin: "ledger.example/<a>", Created: time.Date(2025, 1, 2, 3, 4, 5, 6, time.UTC), Frozen: true}
	encoded, err := keys.EncodeInfo(info)
	require.NoError(t, err)
	got, err := keys.DecodeInfo(encoded)
	require.NoError(t, err)
	require.Equal(t, info, got)
	info.Created = time.Date(math.MaxInt32, 1, 1, 0, 0, 0, 0, time.UTC)
	_, err = keys.EncodeInfo(info)
	require.Error(t, err, "a year that RFC 3339 cannot represent")
}

// Decoders accept only what the encoders write.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add(keys.EncodeNumber(1))
	f.Add(keys.AppendLocationValue(nil, keys.LocationValue{Location: keys.Location{Seq: 1, Slot: 2}}))
	f.Add(keys.AppendLocationValue(nil, keys.LocationValue{Redacted: true}))
	f.Add(keys.AppendErasureValue(nil, keys.Erasure{TimeMicros: 1}))
	f.Add(keys.EncodeSeq(5))
	f.Add(keys.AppendClaimValue(nil, storage.Claim{Seq: 3}))
	f.Add(keys.AppendHeadValue(nil, storage.Head{Size: 4, Checkpoint: []byte("c")}))
	f.Add([]byte(`{"name":"a","origin":"o","created":"2025-01-02T03:04:05Z","frozen":true}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if head, err := keys.DecodeHead(b); err == nil {
			require.Equal(t, b, keys.AppendHeadValue(nil, head))
		}
		if holding, err := keys.DecodeLocationValue(b); err == nil {
			require.Equal(t, b, keys.AppendLocationValue(nil, holding))
		}
		if erasure, err := keys.DecodeErasure(b); err == nil {
			require.Equal(t, b, keys.AppendErasureValue(nil, erasure))
		}
		if seq, err := keys.DecodeSeq(b); err == nil {
			require.Equal(t, b, keys.EncodeSeq(seq))
		}
		if claim, err := keys.DecodeClaim(digest(1), b); err == nil {
			require.Equal(t, b, keys.AppendClaimValue(nil, claim))
			require.Equal(t, digest(1), claim.KeyDigest)
		}
		if n, err := keys.DecodeNumber(b); err == nil {
			require.Equal(t, b, keys.EncodeNumber(n))
		}
		if info, err := keys.DecodeInfo(b); err == nil {
			again, err := keys.EncodeInfo(info)
			if err != nil {
				return // the year has five digits in UTC and cannot be encoded
			}
			same, err := keys.DecodeInfo(again)
			require.NoError(t, err)
			require.True(t, info.Created.Equal(same.Created))
			same.Created = info.Created
			require.Equal(t, info, same)
		}
	})
}

// Parse recognises every key of this package and returns FamilyUnknown for others.
func TestParse(t *testing.T) {
	digest := digest(3)
	location := keys.Location{Seq: 5, Slot: 6}
	for _, c := range []struct {
		key  []byte
		want keys.ParsedKey
	}{
		{keys.FormatVersionKey(), keys.ParsedKey{Family: keys.FamilyFormat}},
		{keys.LastLedgerKey(), keys.ParsedKey{Family: keys.FamilyLastLedger}},
		{keys.NameKey("default"), keys.ParsedKey{Family: keys.FamilyName, Name: "default"}},
		{keys.InfoKey(7), keys.ParsedKey{Family: keys.FamilyInfo, Ledger: 7}},
		{keys.HeadKey(7), keys.ParsedKey{Family: keys.FamilyHead, Ledger: 7}},
		{keys.SettingKey(7, "log"), keys.ParsedKey{Family: keys.FamilySetting, Ledger: 7, Name: "log"}},
		{keys.AppendEntryKey(nil, 7, 9), keys.ParsedKey{Family: keys.FamilyEntry, Ledger: 7, Seq: 9}},
		{keys.AppendTileKey(nil, 7, 1, 9), keys.ParsedKey{Family: keys.FamilyTile, Ledger: 7, Level: 1, Index: 9}},
		{keys.AppendContentKey(nil, 7, location), keys.ParsedKey{Family: keys.FamilyContent, Ledger: 7, Location: location}},
		{keys.AppendLocationKey(nil, 7, digest), keys.ParsedKey{Family: keys.FamilyLocation, Ledger: 7, Digest: digest}},
		{keys.AppendReferenceKey(nil, 7, digest, 9), keys.ParsedKey{Family: keys.FamilyReference, Ledger: 7, Digest: digest, Seq: 9}},
		{keys.AppendRedactionKey(nil, 7, 9), keys.ParsedKey{Family: keys.FamilyRedaction, Ledger: 7, Seq: 9}},
		{keys.AppendClaimKey(nil, 7, digest), keys.ParsedKey{Family: keys.FamilyClaim, Ledger: 7, Digest: digest}},
		{keys.AppendErasureKey(nil, 7, location), keys.ParsedKey{Family: keys.FamilyErasure, Ledger: 7, Location: location}},
	} {
		require.Equal(t, c.want, keys.Parse(c.key), "%x", c.key)
		if f := c.want.Family; f != keys.FamilyName && f != keys.FamilySetting {
			require.Equal(t, keys.FamilyUnknown, keys.Parse(append(bytes.Clone(c.key), 0)).Family, "%x and a byte", c.key)
		}
	}
	for _, key := range [][]byte{nil, {0}, {'h', 0, 0, 0, 0}, {'i', 0, 0, 0, 0}, {'z', 0, 0, 0, 1}, {'x', 0, 0, 0, 0, 'C'}} {
		require.Equal(t, keys.FamilyUnknown, keys.Parse(key).Family, "%x", key)
	}
}
