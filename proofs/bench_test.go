package proofs

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func BenchmarkLeafHash(b *testing.B) {
	entry := make([]byte, 1000)
	b.ReportAllocs()
	for b.Loop() {
		LeafHash(entry)
	}
}

func BenchmarkAppend(b *testing.B) {
	tree, err := OpenTree(0, nil, nil)
	require.NoError(b, err)
	leaf := testLeaf(0)
	b.ReportAllocs()
	for b.Loop() {
		tree.Append(leaf)
		if tree.Size()%4096 == 0 {
			tree.TakeDirtyTiles()
		}
	}
}

func BenchmarkSnapshot(b *testing.B) {
	tree, _ := grow(b, 99_999, nil)
	b.ReportAllocs()
	for b.Loop() {
		tree.Snapshot()
	}
}

func BenchmarkInclusion(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		cache := NewTileCache(8192)
		tree, store := grow(b, n, cache)
		p := NewProver(tree.Snapshot(), cache, store.read)
		size := uint64(n)
		b.Run(fmt.Sprintf("leaves=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			index := uint64(0)
			for b.Loop() {
				index = (index + 104_729) % size
				if _, err := p.InclusionProof(index, size); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("leaves=%d,older", n), func(b *testing.B) {
			b.ReportAllocs()
			index := uint64(0)
			for b.Loop() {
				index = (index + 104_729) % (size - 1)
				if _, err := p.InclusionProof(index, size-1); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("leaves=%d,uncached", n), func(b *testing.B) {
			p := NewProver(tree.Snapshot(), nil, store.read)
			b.ReportAllocs()
			index := uint64(0)
			for b.Loop() {
				index = (index + 104_729) % size
				if _, err := p.InclusionProof(index, size); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkReceiptJSON(b *testing.B) {
	r := newTestLog(b, 9).receipt(b, 4, 9)
	text := r.AppendJSON(nil)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		text = r.AppendJSON(text[:0])
	}
}

func BenchmarkReceiptVerify(b *testing.B) {
	l := newTestLog(b, 9)
	text := l.receipt(b, 4, 9).AppendJSON(nil)
	b.ReportAllocs()
	for b.Loop() {
		r, err := ParseReceipt(text)
		require.NoError(b, err)
		require.NoError(b, r.Verify(l.signer.Verifier()))
	}
}

func BenchmarkNewReceipt(b *testing.B) {
	entry := newTestLog(b, 9).entries[4]
	b.SetBytes(int64(len(entry)))
	b.ReportAllocs()
	for b.Loop() {
		_, err := NewReceipt(entry)
		require.NoError(b, err)
	}
}
