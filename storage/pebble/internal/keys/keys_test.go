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
	place := keys.Location{Seq: 1, Slot: 2}
	claim := storage.Claim{RecordDigest: digest(0xab), Seq: 3}
	head := storage.Head{Size: 1, Tip: digest(0xab), Time: -1, Checkpoint: []byte("c")}
	for want, got := range map[string][]byte{
		"00000000" + "66":                               keys.FormatVersionKey(),
		"6c" + "00000000":                               keys.LastLedger(),
		"6e" + "00000000" + "6162":                      keys.Name("ab"),
		"69" + "00000102":                               keys.Info(0x102),
		"68" + "00000102":                               keys.Head(0x102),
		"73" + "00000102" + "6162":                      keys.Setting(0x102, "ab"),
		"45" + "00000102" + "0000000000000003":          keys.AppendEntry(nil, 0x102, 3),
		"74" + "00000102" + "04" + "0000000000000003":   keys.AppendTile(nil, 0x102, 4, 3),
		"43" + "00000102" + "0000000000000001" + "0002": keys.AppendContent(nil, 0x102, place),
		"64" + "00000102" + d:                           keys.AppendLocation(nil, 0x102, digest(0xab)),
		"6b" + "00000102" + d:                           keys.AppendClaim(nil, 0x102, digest(0xab)),
		"64" + "00000102" + d + "0000000000000003":      keys.AppendReference(nil, 0x102, digest(0xab), 3),
		"72" + "00000102" + "0000000000000003":          keys.AppendRedaction(nil, 0x102, 3),
		"0000000000000001" + "0002":                     keys.AppendLocationValue(nil, keys.LocationValue{Location: place}),
		"0000000000000001" + "0002" + "00":              keys.AppendLocationValue(nil, keys.LocationValue{Location: place, Withdrawn: true}),
		"0000000000000003":                              keys.EncodeSeq(3),
		"ffffffffffffffff" + d:                          keys.AppendErasureValue(nil, keys.Erasure{Time: -1, Digest: digest(0xab)}),
		"78" + "00000000" + "43" + "00000102" + "0000000000000001" + "0002": keys.AppendErasure(nil, 0x102, place),
		d + "0000000000000003":                             keys.AppendClaimValue(nil, claim),
		"0000000000000001" + d + "ffffffffffffffff" + "63": keys.AppendHeadValue(nil, head),
		"00000004": keys.EncodeNumber(keys.FormatVersion),
	} {
		require.Equal(t, want, hex.EncodeToString(got))
	}
}

func TestRanges(t *testing.T) {
	start, end := keys.LocationRange(7)
	for _, key := range [][]byte{keys.AppendLocation(nil, 7, digest(0)), keys.AppendLocation(nil, 7, digest(0xff))} {
		require.True(t, bytes.Compare(start, key) <= 0 && bytes.Compare(key, end) < 0)
		require.LessOrEqual(t, len(key), keys.MaxLength)
	}
	for _, key := range [][]byte{keys.AppendLocation(nil, 6, digest(0xff)), keys.AppendLocation(nil, 8, digest(0)), keys.AppendEntry(nil, 7, 0)} {
		require.False(t, bytes.Compare(start, key) <= 0 && bytes.Compare(key, end) < 0)
	}
	start, end = keys.DigestRange(7, digest(1))
	for _, key := range [][]byte{keys.AppendLocation(nil, 7, digest(1)), keys.AppendReference(nil, 7, digest(1), 0), keys.AppendReference(nil, 7, digest(1), math.MaxUint64)} {
		require.True(t, bytes.Compare(start, key) <= 0 && bytes.Compare(key, end) < 0)
		require.LessOrEqual(t, len(key), keys.MaxLength)
	}
	next := digest(1)
	next[storage.HashSize-1]++
	for _, key := range [][]byte{keys.AppendReference(nil, 7, digest(0), math.MaxUint64), keys.AppendLocation(nil, 7, next)} {
		require.False(t, bytes.Compare(start, key) <= 0 && bytes.Compare(key, end) < 0)
	}
	start, end = keys.ClaimRange(math.MaxUint32)
	require.Greater(t, string(keys.AppendClaim(nil, math.MaxUint32, digest(0xff))), string(start))
	require.Less(t, string(keys.AppendClaim(nil, math.MaxUint32, digest(0xff))), string(end))
	require.Less(t, string(end), string(keys.LastLedger()))
	start, end = keys.RedactionRange(7, 3)
	for _, key := range [][]byte{keys.AppendRedaction(nil, 7, 3), keys.AppendRedaction(nil, 7, math.MaxUint64)} {
		require.True(t, bytes.Compare(start, key) <= 0 && bytes.Compare(key, end) < 0)
	}
	for _, key := range [][]byte{keys.AppendRedaction(nil, 7, 2), keys.Setting(7, ""), keys.AppendRedaction(nil, 8, 3)} {
		require.False(t, bytes.Compare(start, key) <= 0 && bytes.Compare(key, end) < 0)
	}
	start, end = keys.ErasureRange()
	key := keys.AppendErasure(nil, math.MaxUint32, keys.Location{Seq: math.MaxUint64, Slot: math.MaxUint16})
	require.True(t, bytes.Compare(start, key) <= 0 && bytes.Compare(key, end) < 0)
	start, end = keys.NameRange()
	for _, name := range []string{"", "a", "\xff\xff"} {
		key := keys.Name(name)
		require.True(t, bytes.Compare(start, key) <= 0 && bytes.Compare(key, end) < 0)
		require.Equal(t, name, string(key[len(start):]))
	}
}

// HasSeparateValues returns true only for the keys of entries and content. Its second result is a
// greater key for which the first result can differ. It is nil if there is no such key.
func TestHasSeparateValues(t *testing.T) {
	content, entry := keys.AppendContent(nil, math.MaxUint32, keys.Location{Seq: math.MaxUint64}), keys.AppendEntry(nil, 0, 0)
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
	for _, key := range [][]byte{keys.AppendLocation(nil, 0, digest(0)), keys.Head(1), keys.AppendTile(nil, 7, 0, 0), keys.AppendErasure(nil, 0, keys.Location{})} {
		separate, end := keys.HasSeparateValues(key)
		require.False(t, separate)
		require.Nil(t, end)
	}
}

func TestHasDigest(t *testing.T) {
	require.True(t, keys.HasDigest(keys.AppendLocation(nil, 1, digest(2))))
	require.True(t, keys.HasDigest(keys.AppendClaim(nil, 1, digest(2))))
	require.Equal(t, digest(2), keys.Digest(keys.AppendLocation(nil, 1, digest(2))))
	require.Equal(t, digest(2), keys.Digest(keys.AppendClaim(nil, 1, digest(2))))
	for _, key := range [][]byte{nil, keys.AppendReference(nil, 1, digest(2), 3), keys.AppendEntry(nil, 1, 2), keys.Setting(1, string(make([]byte, 32)))} {
		require.False(t, keys.HasDigest(key))
	}
}

// Entry keys sort by sequence number, and EntrySeq accepts only entry keys.
func TestEntryOrder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		seqs := rapid.SliceOfN(rapid.Uint64(), 2, 20).Draw(r, "seqs")
		var entries [][]byte
		for _, seq := range seqs {
			entries = append(entries, keys.AppendEntry(nil, 1, seq))
		}
		slices.Sort(seqs)
		slices.SortFunc(entries, bytes.Compare)
		for i, entry := range entries {
			seq, ok := keys.EntrySeq(entry)
			require.True(r, ok)
			require.Equal(r, seqs[i], seq)
		}
	})
	for _, other := range [][]byte{nil, keys.Head(1), keys.AppendTile(nil, 1, 0, 0), keys.AppendContent(nil, 1, keys.Location{}), keys.AppendEntry(nil, 1, 5)[:12]} {
		_, ok := keys.EntrySeq(other)
		require.False(t, ok)
	}
}

// Each function that extracts part of a key returns the encoded value and refuses other kinds of
// keys.
func TestKeyParts(t *testing.T) {
	seq, ok := keys.ReferenceSeq(keys.AppendReference(nil, 1, digest(2), 3))
	require.True(t, ok)
	require.Equal(t, uint64(3), seq)
	seq, ok = keys.RedactionSeq(keys.AppendRedaction(nil, 1, 7))
	require.True(t, ok)
	require.Equal(t, uint64(7), seq)
	place := keys.Location{Seq: 4, Slot: 5}
	content, ledger, ok := keys.ErasureContentKey(keys.AppendErasure(nil, 6, place))
	require.True(t, ok)
	require.Equal(t, keys.Ledger(6), ledger)
	require.Equal(t, keys.AppendContent(nil, 6, place), content)
	for _, other := range [][]byte{nil, keys.AppendLocation(nil, 1, digest(2)), keys.AppendClaim(nil, 1, digest(2)), keys.AppendErasure(nil, 1, place)[:18]} {
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
	f.Add(keys.AppendLocationValue(nil, keys.LocationValue{Withdrawn: true}))
	f.Add(keys.AppendErasureValue(nil, keys.Erasure{Time: 1}))
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
			require.Equal(t, digest(1), claim.Key)
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

// Parse recognises every key of this package and returns Unknown for others.
func TestParse(t *testing.T) {
	digest := digest(3)
	place := keys.Location{Seq: 5, Slot: 6}
	for _, c := range []struct {
		key  []byte
		want keys.ParsedKey
	}{
		{keys.FormatVersionKey(), keys.ParsedKey{Family: keys.FormatKey}},
		{keys.LastLedger(), keys.ParsedKey{Family: keys.LastLedgerKey}},
		{keys.Name("default"), keys.ParsedKey{Family: keys.NameKey, Name: "default"}},
		{keys.Info(7), keys.ParsedKey{Family: keys.InfoKey, Ledger: 7}},
		{keys.Head(7), keys.ParsedKey{Family: keys.HeadKey, Ledger: 7}},
		{keys.Setting(7, "log"), keys.ParsedKey{Family: keys.SettingKey, Ledger: 7, Name: "log"}},
		{keys.AppendEntry(nil, 7, 9), keys.ParsedKey{Family: keys.EntryKey, Ledger: 7, Seq: 9}},
		{keys.AppendTile(nil, 7, 1, 9), keys.ParsedKey{Family: keys.TileKey, Ledger: 7, Level: 1, Index: 9}},
		{keys.AppendContent(nil, 7, place), keys.ParsedKey{Family: keys.ContentKey, Ledger: 7, Location: place}},
		{keys.AppendLocation(nil, 7, digest), keys.ParsedKey{Family: keys.LocationKey, Ledger: 7, Digest: digest}},
		{keys.AppendReference(nil, 7, digest, 9), keys.ParsedKey{Family: keys.ReferenceKey, Ledger: 7, Digest: digest, Seq: 9}},
		{keys.AppendRedaction(nil, 7, 9), keys.ParsedKey{Family: keys.RedactionKey, Ledger: 7, Seq: 9}},
		{keys.AppendClaim(nil, 7, digest), keys.ParsedKey{Family: keys.ClaimKey, Ledger: 7, Digest: digest}},
		{keys.AppendErasure(nil, 7, place), keys.ParsedKey{Family: keys.ErasureKey, Ledger: 7, Location: place}},
	} {
		require.Equal(t, c.want, keys.Parse(c.key), "%x", c.key)
		if f := c.want.Family; f != keys.NameKey && f != keys.SettingKey {
			require.Equal(t, keys.UnknownKey, keys.Parse(append(bytes.Clone(c.key), 0)).Family, "%x and a byte", c.key)
		}
	}
	for _, key := range [][]byte{nil, {0}, {'h', 0, 0, 0, 0}, {'i', 0, 0, 0, 0}, {'z', 0, 0, 0, 1}, {'x', 0, 0, 0, 0, 'C'}} {
		require.Equal(t, keys.UnknownKey, keys.Parse(key).Family, "%x", key)
	}
}
