package textdiff

import "math/bits"

// MaxAlignedTokens is the maximum number of tokens that are aligned in each text. The beginning and the
// end that the two texts share are not aligned and do not count. Aligning two texts takes at most
// MaxAlignedTokens² / 64 steps.
const MaxAlignedTokens = 1 << 13

// alignment describes a longest common subsequence of the tokens of a text a and a later text b.
//
// It is computed with bit vectors (Hyyrö, "Bit-parallel LCS-length computation revisited", 2004),
// 64 tokens at a time. Go libraries that compare token by token take a hundred times as long for
// texts of 2,000 words (BenchmarkCompare), or give up after a certain number of differences or a
// certain time.
type alignment struct {
	lengthA, lengthB int
	words            int // number of 64-bit words in each row
	// rows contains a bit vector for each token of b, with a bit for each token of a. Bit i of row
	// j is 0 if appending token i to a[:i] lengthens its longest common subsequence with b[:j+1].
	rows []uint64
}

// place is one 64-bit word of a bit vector that marks where a particular token occurs in a. word is
// the index of the word in the vector, and mask is its value.
type place struct {
	word int
	mask uint64
}

// align aligns the tokens of two texts. Each token is given as a number less than count.
func align(a, b []int, count int) *alignment {
	l := &alignment{lengthA: len(a), lengthB: len(b), words: (len(a) + 63) / 64}
	places := make([][]place, count)
	for i, n := range a {
		if last := len(places[n]) - 1; last >= 0 && places[n][last].word == i/64 {
			places[n][last].mask |= 1 << (i % 64)
		} else {
			places[n] = append(places[n], place{i / 64, 1 << (i % 64)})
		}
	}
	row := make([]uint64, l.words)
	for i := range row {
		row[i] = ^uint64(0)
	}
	l.rows = make([]uint64, 0, l.words*len(b))
	for _, n := range b {
		step(row, places[n])
		l.rows = append(l.rows, row...)
	}
	return l
}

// step replaces row with the next row: row = (row + (row & mask)) | (row &^ mask). places contains
// the nonzero words of mask.
func step(row []uint64, places []place) {
	var carry uint64
	next := 0
	skip := func(to int) { // a word for which the mask is 0 changes only if there is a carry
		for ; carry > 0 && next < to; next++ {
			var sum uint64
			sum, carry = bits.Add64(row[next], 0, carry)
			row[next] |= sum
		}
	}
	for _, p := range places {
		skip(p.word)
		var sum uint64
		sum, carry = bits.Add64(row[p.word], row[p.word]&p.mask, carry)
		row[p.word] = sum | row[p.word]&^p.mask
		next = p.word + 1
	}
	skip(len(row))
}

// longer reports whether appending token i of a to a[:i] lengthens its longest common subsequence
// with b[:j+1].
func (l *alignment) longer(i, j int) bool { return l.rows[j*l.words+i/64]>>(i%64)&1 == 0 }

// lcsLength returns the length of the longest common subsequence.
func (l *alignment) lcsLength() (n int) {
	if l.lengthB == 0 {
		return 0
	}
	for _, word := range l.rows[(l.lengthB-1)*l.words:] {
		n += 64 - bits.OnesCount64(word)
	}
	return n
}

// match holds the positions of two equal tokens, one in a and one in b.
type match struct{ a, b int }

// matches returns the pairs of equal tokens that make up the longest common subsequence, in order.
func (l *alignment) matches() []match {
	list := make([]match, l.lcsLength())
	i, j, n := l.lengthA-1, l.lengthB-1, len(list)
	for n > 0 {
		switch {
		case !l.longer(i, j):
			i--
		case j > 0 && l.longer(i, j-1):
			j--
		default:
			n--
			list[n] = match{i, j}
			i, j = i-1, j-1
		}
	}
	return list
}
