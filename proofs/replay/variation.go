package replay

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"net/url"
	"slices"
)

// asClientsAsk adds a random variation to each question and shuffles the questions, so that a
// server cannot tell an audit from other clients. Each complete list is requested twice, once with
// a size and once without. One of the two requests reads the list to its end, and the other reads
// only the first few pages. About one in ten of the remaining queries to the index is repeated as
// of an older size. The variation and the position of a question depend only on the seed and the
// question's own text, so adding a question does not change the others.
func asClientsAsk(questions []question, size, seed uint64) []question {
	type placed struct {
		question
		place uint64
	}
	var all []placed
	texts := make(map[string]uint64) // number of questions so far, keyed by text
	for _, q := range questions {
		random := randomOf(seed, texts[q.String()], q.String())
		texts[q.String()]++
		switch {
		case q.listsAll:
			sized := q
			sized.asOf = size
			if random.IntN(2) == 0 {
				q.pages = fewPages
			} else {
				sized.pages = fewPages
			}
			all = append(all, placed{sized.varied(size, random), random.Uint64()})
		case q.atHead:
			q.pages = fewPages
		case q.form.size == "" || q.asOf > 0 || random.IntN(2) == 0:
		default:
			q.asOf = size
			if q.form == indexForm && random.IntN(5) == 0 {
				older := q
				older.asOf = 1 + random.Uint64N(size)
				all = append(all, placed{older.varied(size, random), random.Uint64()})
			}
		}
		all = append(all, placed{q.varied(size, random), random.Uint64()})
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.place, b.place) })
	shuffled := make([]question, len(all))
	for i := range all {
		shuffled[i] = all[i].question
	}
	return shuffled
}

// randomOf returns the random number generator for the nth question with the given text.
func randomOf(seed, n uint64, text string) *rand.Rand {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, seed), n), text...))
	return rand.New(rand.NewPCG(binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:]))) // #nosec G404 -- the server does not know the seed
}

// varied returns the question with random additional parameters that do not change the answer.
func (q question) varied(size uint64, random *rand.Rand) question {
	q.extra = url.Values{}
	if random.IntN(10) == 0 && !q.form.noProofs && q.path != failuresPath {
		q.extra.Set("proofs", "true")
	}
	if random.IntN(8) == 0 && !q.form.noAfter && q.asOf == 0 {
		q.extra.Set("after", decimal(random.Uint64N(size)))
	}
	q.limit = anyLimit(random.Uint64(), 3)
	return q
}

// anyLimit derives a limit that a client might set from the random number chance. In one of eight
// cases, the limit is small. In byDefault of eight cases, it is 0, which stands for the server's
// default. Otherwise, it is maxRows, because reading a long list in small pages takes many
// requests.
func anyLimit(chance uint64, byDefault uint64) int {
	switch at := chance % 8; {
	case at == 0:
		return 1 + int(chance>>8%200)
	case at <= byDefault:
		return 0
	}
	return maxRows
}
